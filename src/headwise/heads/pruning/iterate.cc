// Ranking between steps. Door: iterate.h.
#include "headwise/heads/pruning/iterate.h"

#include <algorithm>
#include <cmath>

namespace headwise {
namespace {

// The heads of the original that are left, in the order in which the smaller
// model has them.
std::vector<size_t> LeftAfter(const Heads& all, const Heads& removed) {
  std::vector<size_t> left;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!std::binary_search(removed.begin(), removed.end(), all[i])) {
      left.push_back(i);
    }
  }
  return left;
}

}  // namespace

Removal RemoveInSteps(const Model& model, const IterativeWork& work) {
  const Heads all = AllHeads(model);
  ChooseHeads(model, std::vector<double>(all.size()), work.choose);
  const double leaving = std::floor(
      (1 - work.choose.keep) * static_cast<double>(all.size()) + 1e-9);
  Removal result;
  result.sets.emplace_back();
  result.scores.resize(all.size());
  for (int64_t step = 1; step <= work.steps; ++step) {
    const Heads gone = result.sets.back();
    const auto most = static_cast<size_t>(std::round(
        leaving * static_cast<double>(step) / static_cast<double>(work.steps)));
    if (most <= gone.size() && step > 1) continue;
    const std::unique_ptr<Model> smaller =
        gone.empty() ? nullptr : work.without(gone);
    const Model& now = smaller ? *smaller : model;
    const std::vector<size_t> left = LeftAfter(all, gone);
    const std::vector<double> scores = work.score(now);
    for (size_t i = 0; i < left.size(); ++i) result.scores[left[i]] = scores[i];
    const Heads own = AllHeads(now);
    for (const Heads& set : RemovalSets(now, scores, work.choose)) {
      if (set.empty() || gone.size() + set.size() > most) continue;
      Heads next = gone;
      for (const HeadRef& head : set) {
        const auto place = std::lower_bound(own.begin(), own.end(), head);
        next.push_back(all[left[place - own.begin()]]);
      }
      std::sort(next.begin(), next.end());
      result.sets.push_back(std::move(next));
    }
  }
  return result;
}

}  // namespace headwise
