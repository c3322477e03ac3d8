// The parts of a step's batch, whose gradients add up in one binary tree: the
// sums, and so the whole run, do not depend on how many ranks share the parts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/dist/group.h"

namespace headwise {

// One action of a rank. "The sum" is what its gradients hold.
struct TreeStep {
  enum class Kind : uint8_t {
    kDifferentiate,  // part `of`, which becomes the sum
    kKeep,           // the sum as number `of`
    kAddKept,        // number `of` to the sum
    kPost,           // the sum to rank `other`
    kPostKept,       // number `of` to rank `other`
    kAddFrom,        // what rank `other` posts to the sum
  };
  Kind kind = Kind::kDifferentiate;
  int64_t of = 0;
  int other = 0;

  friend bool operator==(const TreeStep&, const TreeStep&) = default;
};

// Rank r of n has parts [r·parts/n, (r + 1)·parts/n).
class GradientTree {
 public:
  // group: null: this process alone. Throws Error(kInvalidArgument) for fewer
  // parts than ranks.
  GradientTree(dist::Group* group, int64_t parts);

  int64_t begin() const { return Begin(rank_); }
  int64_t end() const { return Begin(rank_ + 1); }
  int ranks() const { return ranks_; }

  // What comes before the rank's last part is differentiated, and what comes
  // after it: that is done element by element, and only there ranks write to
  // each other. In the end rank 0 has the sum of all parts.
  const std::vector<TreeStep>& before() const { return before_; }
  int64_t last_part() const { return end() - 1; }
  const std::vector<TreeStep>& after() const { return after_; }

  // Σ over ranks: of whole numbers, or of doubles of which all ranks but one
  // have 0. Either is exact.
  void AllReduce(std::span<int64_t> values) const;
  void AllReduce(std::span<double> values) const;

 private:
  int64_t Begin(int rank) const { return rank * parts_ / ranks_; }
  int Owner(int64_t part) const;
  // The steps of the parts [low, high): their sum is the owner's of the first.
  void Plan(int64_t low, int64_t high, std::vector<TreeStep>& steps) const;

  dist::Group* group_;
  int64_t parts_;
  int rank_ = 0;
  int ranks_ = 1;
  std::vector<TreeStep> before_, after_;
};

}  // namespace headwise
