// What studies that train share: seeds and steps by request, how far the study
// is, means over seeds. What they train: one attention module (toy.h) or a
// small language model (tiny_model.h).
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "headwise/context.h"
#include "headwise/study/study.h"

namespace headwise {

// Those that RunStudy chose; without it 1, or 1 … 5 for a full study.
std::vector<uint64_t> StudySeeds(const StudyRequest& request);

// `quick` or `full` steps times the request's effort, at least 1.
int64_t StudySteps(const StudyRequest& request, int64_t quick, int64_t full);

// Tells how far a study is, and ends it when it is to stop. One a study; its
// runs may tick from several threads.
class StudyClock {
 public:
  // The request must outlive it. total: ticks of the whole study.
  StudyClock(const StudyRequest& request, std::string name, int64_t total);

  // One step is done. Throws Error(kCancelled).
  void Tick();

 private:
  const StudyRequest& request_;
  std::string name_;
  double total_;
  std::mutex mutex_;
  double done_ = 0;
};

// Calls run(context, i) for every i in [0, runs) on the threads of `context`,
// each run with a context of one thread on the same device: a small model gains
// more from runs side by side than from several threads in one.
void ForEachRun(Context& context, int64_t runs,
                const std::function<void(Context&, int64_t)>& run);

// The same for every case and seed; results by [case][seed]. run(context,
// case, seed) returns what can be made without arguments.
template <typename Run>
auto RunCases(Context& context, size_t cases,
              const std::vector<uint64_t>& seeds, const Run& run) {
  using Result = std::invoke_result_t<Run, Context&, size_t, uint64_t>;
  std::vector<std::vector<Result>> results(cases);
  for (auto& of_case : results) of_case.resize(seeds.size());
  ForEachRun(context, static_cast<int64_t>(cases * seeds.size()),
             [&](Context& own, int64_t i) {
               const size_t which = static_cast<size_t>(i) / seeds.size();
               const size_t seed = static_cast<size_t>(i) % seeds.size();
               results[which][seed] = run(own, which, seeds[seed]);
             });
  return results;
}

// One number of every outcome, in their order: of one case, by seed.
template <typename Outcome>
std::vector<double> EachOf(const std::vector<Outcome>& outcomes,
                           double Outcome::*of) {
  std::vector<double> values;
  for (const Outcome& outcome : outcomes) values.push_back(outcome.*of);
  return values;
}

// The mean over seeds. Bounds: what the figure can be at all.
SeedMean OverSeeds(std::span<const double> values, const Bounds& bounds = {});
// The same of a − b, seed by seed.
SeedMean DifferenceOverSeeds(std::span<const double> a,
                             std::span<const double> b,
                             const Bounds& bounds = {});

// The mean of a − b over paired sequences, with a bootstrap interval.
Interval PairedDifference(std::span<const double> a, std::span<const double> b);

}  // namespace headwise
