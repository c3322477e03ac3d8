// What studies that train share. Door: trained.h.
#include "headwise/study/support/trained.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/base/stop.h"
#include "headwise/profile.h"

namespace headwise {
namespace {

constexpr int64_t kReplicates = 1000;  // of the bootstrap

}  // namespace

std::vector<uint64_t> StudySeeds(const StudyRequest& request) {
  if (!request.seeds.empty()) return request.seeds;
  if (request.full) return {1, 2, 3, 4, 5};
  return {1};
}

int64_t StudySteps(const StudyRequest& request, int64_t quick, int64_t full) {
  if (request.notes) {
    request.notes->AddSteps(fmt::format("{} or {} steps", quick, full));
  }
  const double steps = static_cast<double>(request.full ? full : quick);
  return std::max<int64_t>(1, std::llround(steps * request.effort));
}

StudyClock::StudyClock(const StudyRequest& request, std::string name,
                       int64_t total)
    : request_(request),
      name_(std::move(name)),
      total_(static_cast<double>(total)) {}

void StudyClock::Tick() {
  if (request_.stop.stop_requested()) ThrowStopped("study " + name_);
  const std::lock_guard lock(mutex_);
  ++done_;
  if (request_.progress) request_.progress(name_, done_, total_);
}

void ForEachRun(Context& context, int64_t runs,
                const std::function<void(Context&, int64_t)>& run) {
  context.pool().ParallelFor(runs, [&](int64_t i, int /*worker*/) {
    Context own(
        {.threads = 1, .implementations = "", .device = context.device()});
    run(own, i);
  });
}

SeedMean OverSeeds(std::span<const double> values, const Bounds& bounds) {
  Tally tally;
  for (const double value : values) tally.Add(value, 1);
  const Estimate mean = tally.Ratio(bounds.low, bounds.high);
  SeedMean result{
      {mean.mean, mean.low, mean.high}, {values.begin(), values.end()}, bounds};
  if (values.size() < 2) {
    result.low = -Bounds::kInfinity;
    result.high = Bounds::kInfinity;
  }
  return result;
}

SeedMean DifferenceOverSeeds(std::span<const double> a,
                             std::span<const double> b, const Bounds& bounds) {
  std::vector<double> differences(a.begin(), a.end());
  for (size_t i = 0; i < differences.size(); ++i) differences[i] -= b[i];
  return OverSeeds(differences, bounds);
}

Interval PairedDifference(std::span<const double> a,
                          std::span<const double> b) {
  std::vector<double> differences(a.begin(), a.end());
  for (size_t i = 0; i < differences.size(); ++i) differences[i] -= b[i];
  const PairedBootstrap bootstrap(std::vector<double>(a.size(), 1.0),
                                  kReplicates, 1);
  return bootstrap.Ratio(differences);
}

}  // namespace headwise
