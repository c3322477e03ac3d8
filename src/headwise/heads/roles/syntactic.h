// The relations of a treebank as a profile holds them, each with the best fixed
// offset of both halves.
#pragma once

#include <string>
#include <vector>

#include "headwise/heads/profile/profile.h"
#include "headwise/roles.h"

namespace headwise {

// The word distance that would find most gold words, and how many.
struct OffsetShare {
  int offset = 0;
  double share = 0;
};

struct RelationWay {
  bool up = true;      // from the dependent to its governor
  std::string metric;  // "syntactic.nsubj.up"; the profile has .a and .b
  OffsetShare first;   // on half a
  OffsetShare second;  // on half b
};

struct Relation {
  std::string name;  // "nsubj"
  std::vector<RelationWay> ways;
};

std::vector<Relation> ReadRelations(const Profile& profile);

}  // namespace headwise
