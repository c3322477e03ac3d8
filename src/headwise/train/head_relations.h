// Relations between positions that a head can be assigned to: for each query at
// most one key, told from the ids alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "headwise/attention.h"
#include "headwise/base/json.h"

namespace headwise {

enum class HeadRelation : uint8_t {
  kPrevious,   // the position before
  kNext,       // the one after
  kSelf,       // itself
  kFirst,      // the first of the sequence; not of itself
  kLast,       // the last; not of itself
  kSameToken,  // the nearest before with the same token, else after
  kInduction,  // what came after the nearest before with the same token
};
constexpr std::array<const char*, 7> FieldWords(HeadRelation) {
  return {"previous", "next",       "self",     "first",
          "last",     "same-token", "induction"};
}

// One entry of "heads": {"assign": […]} of a training configuration.
struct HeadAssignment {
  int64_t layer = 0;
  int64_t head = 0;
  HeadRelation relation = HeadRelation::kPrevious;
  double weight = 1;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("layer", self.layer, "of the head, from 0");
    visit("head", self.head, "from 0");
    visit("relation", self.relation,
          "previous, next, self, first, last, same-token or induction");
    visit("weight", self.weight, "of −log attention on the relation's key");
  }
};

// The list; none: an empty one. Throws Error(kInvalidArgument) naming the
// entry.
std::vector<HeadAssignment> ReadAssignments(const Json& heads,
                                            const std::string& where);

// Queries that have a key in the relation and see it, ascending, and that key;
// both count rows of the batch.
struct RelationPairs {
  std::vector<int32_t> queries;
  std::vector<int32_t> keys;
};

// Sequences end to end, as SequenceBatch has them. mask: of the layer.
RelationPairs FindPairs(HeadRelation relation, std::span<const int32_t> ids,
                        std::span<const int32_t> starts,
                        const AttentionMask& mask);

}  // namespace headwise
