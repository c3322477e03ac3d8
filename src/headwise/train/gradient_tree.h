// The parts of a step's batch, whose gradients add up in one binary tree: the
// sums, and so the whole run, do not depend on how many ranks share the parts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "headwise/context.h"
#include "headwise/dist/group.h"
#include "headwise/model/parameters.h"

namespace headwise {

// Rank r of n has parts [r·parts/n, (r + 1)·parts/n).
class GradientTree {
 public:
  // group: null: this process alone. Throws Error(kInvalidArgument) for fewer
  // parts than ranks.
  GradientTree(dist::Group* group, int64_t parts);

  int64_t begin() const { return Begin(rank_); }
  int64_t end() const { return Begin(rank_ + 1); }

  // Calls `differentiate` for each part of this rank, with gradients that are
  // 0; it adds the part's. In the end every rank's are those of all parts.
  using Differentiate = std::function<void(int64_t part)>;
  void Sum(Context& context, ParameterStore& store,
           const Differentiate& differentiate) const;

  // Σ over ranks: of whole numbers, or of doubles of which all ranks but one
  // have 0. Either is exact.
  void AllReduce(std::span<int64_t> values) const;
  void AllReduce(std::span<double> values) const;

 private:
  int64_t Begin(int rank) const { return rank * parts_ / ranks_; }
  int Owner(int64_t part) const;
  // Of the parts [low, high): into the store of the owner of the first.
  void SumNode(Context& context, ParameterStore& store, int64_t low,
               int64_t high, const Differentiate& differentiate) const;

  dist::Group* group_;
  int64_t parts_;
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace headwise
