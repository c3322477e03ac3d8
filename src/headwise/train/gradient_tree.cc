// Door: gradient_tree.h.
#include "headwise/train/gradient_tree.h"

#include <fmt/core.h>

#include "headwise/error.h"

namespace headwise {

GradientTree::GradientTree(dist::Group* group, int64_t parts)
    : group_(group), parts_(parts) {
  if (group_ != nullptr) {
    rank_ = group_->rank();
    ranks_ = group_->size();
  }
  if (parts_ < ranks_) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"training",
         fmt::format("a batch of at least {} parts, one a rank", ranks_),
         fmt::format("parts {}", parts_),
         fmt::format("set parts to {} or a multiple of it; runs of equal "
                     "parts are equal on any number of ranks",
                     ranks_)});
  }
  std::vector<TreeStep> steps;
  Plan(0, parts_, steps);
  // What would be posted before the last part is kept until after it, so that
  // every rank writes bucket by bucket.
  bool is_before = true;
  int64_t kept = parts_;  // numbers below are those of Plan
  for (const TreeStep& step : steps) {
    if (step.kind == TreeStep::Kind::kDifferentiate && step.of == last_part()) {
      is_before = false;
    } else if (!is_before) {
      after_.push_back(step);
    } else if (step.kind == TreeStep::Kind::kPost) {
      before_.push_back({TreeStep::Kind::kKeep, kept, 0});
      after_.push_back({TreeStep::Kind::kPostKept, kept++, step.other});
    } else {
      before_.push_back(step);
    }
  }
}

int GradientTree::Owner(int64_t part) const {
  int rank = 0;
  while (part >= Begin(rank + 1)) ++rank;
  return rank;
}

void GradientTree::Plan(int64_t low, int64_t high,
                        std::vector<TreeStep>& steps) const {
  if (end() <= low || begin() >= high) return;
  if (high - low == 1) {
    steps.push_back({TreeStep::Kind::kDifferentiate, low, 0});
    return;
  }
  const int64_t middle = (low + high) / 2;
  const int left = Owner(low), right = Owner(middle);
  const bool both = left == rank_ && right == rank_;
  Plan(low, middle, steps);
  // A node is known by where its halves meet.
  if (both) steps.push_back({TreeStep::Kind::kKeep, middle, 0});
  Plan(middle, high, steps);
  if (both) steps.push_back({TreeStep::Kind::kAddKept, middle, 0});
  if (left == right) return;
  if (right == rank_) steps.push_back({TreeStep::Kind::kPost, 0, left});
  if (left == rank_) steps.push_back({TreeStep::Kind::kAddFrom, 0, right});
}

void GradientTree::AllReduce(std::span<int64_t> values) const {
  if (group_ != nullptr) group_->AllReduce(values);
}

void GradientTree::AllReduce(std::span<double> values) const {
  if (group_ != nullptr) group_->AllReduce(values);
}

}  // namespace headwise
