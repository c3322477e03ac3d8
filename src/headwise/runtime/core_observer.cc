// CoreObserver. Door: core_observer.h.
#include "headwise/runtime/core_observer.h"

#include "headwise/ops/copy/copy.h"

namespace headwise {

void CoreObserver::BeforeAttention(const AttentionSite&,
                                   const AttentionProblem& problem,
                                   AttentionArgs& args) {
  call_sums_ = Tensor(context_, DType::kF64,
                      {problem.batch, problem.heads, kSumColumns});
  observation_ = {};
  observation_.statistics = Statistics::kCore;
  observation_.summed.sums = call_sums_.view();
  args.observation = &observation_;
}

void CoreObserver::AfterAttention(const AttentionSite& site,
                                  const AttentionProblem& problem,
                                  const AttentionArgs&) {
  std::vector<HeadSums>& heads = sums_[site.name];
  heads.resize(problem.heads);
  const std::vector<double> sums =
      ToVector<double>(context_, call_sums_.view());
  auto from = sums.begin();
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (HeadSums& head : heads) {
      for (double& sum : head) sum += *from++;
    }
  }
}

}  // namespace headwise
