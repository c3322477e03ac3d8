// Door: prune_timer.h.
#include "prune_timer.h"

#include <utility>
#include <vector>

namespace headwise {

TimePair PairTimer::On(const Context& context) {
  const int threads = context.device().is_cpu() ? context.threads() : 2;
  return [this, threads](const std::function<void()>& before,
                         const std::function<void()>& after, double seconds) {
    if (!watch_) watch_.emplace();
    std::vector<bench::Candidate> candidates(2);
    candidates[0].time = bench::TimedByWork(threads, before);
    candidates[1].time = bench::TimedByWork(threads, after);
    bench::MeasureOptions options;
    options.budget_seconds = seconds;
    bench::Measure(options, candidates);
    note_ = bench::LoadNote(*watch_);
    return std::pair(candidates[0].row.ms, candidates[1].row.ms);
  };
}

}  // namespace headwise
