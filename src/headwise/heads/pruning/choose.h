// From scores of heads to a set that can leave the model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/heads/pruning/plan.h"
#include "headwise/model/head_ref.h"

namespace headwise {

// What leaves at once where several queries share keys and values.
enum class GroupUnit : uint8_t {
  kHeads,   // one head of every group: the cache keeps its size
  kGroups,  // a group with its keys and values: the cache shrinks
};

struct ChooseOptions {
  double keep = 1;       // share of all heads that stays, in [0, 1]
  bool uniform = false;  // the same number of heads in every layer of a kind
  GroupUnit unit = GroupUnit::kHeads;
  EmptyLayers empty = EmptyLayers::kRefused;
};

// The heads that leave, those of the lowest score first; as many as `keep`
// allows, fewer where a whole unit does not fit. `scores`: one a head in
// AllHeads' order. Throws Error(kInvalidArgument) for scores that are not
// numbers and for a share that cannot be reached, with the nearest that can.
std::vector<HeadRef> ChooseHeads(const Model& model,
                                 std::span<const double> scores,
                                 const ChooseOptions& options);

// The smallest share that ChooseHeads accepts as `keep`.
double LeastShare(const Model& model, const ChooseOptions& options);

// Every set that these scores lead to, whatever `keep` says: none first, then
// growing, each with all of the one before, up to all that may leave.
std::vector<std::vector<HeadRef>> RemovalSets(const Model& model,
                                              std::span<const double> scores,
                                              const ChooseOptions& options);

}  // namespace headwise
