// The best that a model of stories (story.h) can do: one who knows the grammar
// and has read what came before.
#pragma once

#include <cstdint>
#include <set>

#include "headwise/study/support/story.h"

namespace headwise {

// Reads one story token by token.
class BestReader {
 public:
  // −ln of the token's probability after what was read, of which `before` was
  // the last.
  double Cost(int32_t before, int32_t token);

 private:
  std::set<int32_t> adjectives_;  // of the story, so far
  bool near_ = false;             // of the sentence: said
  bool new_ = false;              // the last adjective
};

// Mean cost of a batch's targets in nats. 0 for other texts than stories, whose
// best nobody knows.
double BestLoss(const StudyText& text, const TrainBatch& batch);

}  // namespace headwise
