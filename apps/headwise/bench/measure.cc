// Door: measure.h.
#include "bench/measure.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <thread>
#include <utility>

#include "bench/statistics.h"

namespace headwise::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Of this thread's work.
double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

struct State {
  int calls = 1;  // in one sample
  bool slow = false;
  std::vector<double> samples;
};

// First calls: page faults, lazy set-up, and how many calls make a sample.
State WarmUp(const MeasureOptions& options, Candidate& candidate) {
  State state;
  double seconds =
      candidate.first_seconds > 0 ? candidate.first_seconds : candidate.time(1);
  state.slow = 3 * seconds > options.budget_seconds;
  if (state.slow) {
    state.samples = {seconds};
    return state;
  }
  seconds = candidate.time(1);
  const double wanted = options.sample_seconds / std::max(seconds, 1e-9);
  state.calls = static_cast<int>(std::clamp(wanted, 1.0, 1e6));
  return state;
}

double Sample(const MeasureOptions& options, Candidate& candidate, int calls) {
  if (options.settle_seconds > 0) {
    std::this_thread::sleep_for(
        std::chrono::duration<double>(options.settle_seconds));
  }
  // Another candidate has just had the caches: short calls get them back first.
  if (calls > 1) candidate.time(1);
  return candidate.time(calls) / calls;
}

// A "Name:   123 kB" line of /proc/self/status, in bytes.
std::optional<int64_t> StatusBytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == name && status >> kib) return kib * 1024;
  }
  return std::nullopt;
}

double Now() {
  return std::chrono::duration<double>(SteadyClock::now().time_since_epoch())
      .count();
}

// Seconds that all processors worked, from the first line of /proc/stat:
// user, nice, system, idle, iowait, irq, softirq. Negative: unknown.
double SystemSeconds() {
  std::ifstream stat("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0;
  if (!(stat >> name >> user >> nice >> system)) return -1;
  return (user + nice + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double OwnSeconds() {
  double sum = 0;
  for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      sum += static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec;
    }
  }
  return sum;
}

}  // namespace

LoadWatch::LoadWatch()
    : wall_(Now()), system_(SystemSeconds()), own_(OwnSeconds()) {}

std::optional<double> LoadWatch::OthersCores() const {
  const double wall = Now() - wall_;
  if (system_ < 0 || wall <= 0) return std::nullopt;
  const double others =
      (SystemSeconds() - system_ - (OwnSeconds() - own_)) / wall;
  return std::max(others, 0.0);
}

std::string LoadNote(const LoadWatch& watch) {
  constexpr double kTolerated = 0.1;  // of a core
  const std::optional<double> others = watch.OthersCores();
  if (!others || *others < kTolerated) return "";
  return fmt::format(
      "other processes kept {:.1f} cores busy meanwhile: measure again",
      *others);
}

std::function<double(int)> Timed(std::function<void()> call) {
  return [call = std::move(call)](int calls) {
    const auto begin = SteadyClock::now();
    for (int i = 0; i < calls; ++i) call();
    return std::chrono::duration<double>(SteadyClock::now() - begin).count();
  };
}

std::function<double(int)> TimedByWork(int threads,
                                       std::function<void()> call) {
  if (threads > 1) return Timed(std::move(call));
  return [call = std::move(call)](int calls) {
    const double begin = ThreadSeconds();
    for (int i = 0; i < calls; ++i) call();
    return ThreadSeconds() - begin;
  };
}

Repeated Repeat(double seconds, int64_t least,
                const std::function<double()>& time) {
  std::vector<double> times;
  for (double sum = 0; std::ssize(times) < least || sum < seconds;) {
    times.push_back(time());
    sum += times.back();
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  return {std::ssize(times), median, (times.back() - times.front()) / median};
}

void Measure(const MeasureOptions& options,
             std::vector<Candidate>& candidates) {
  std::vector<State> states;
  std::vector<size_t> order;
  for (Candidate& candidate : candidates) {
    states.push_back(WarmUp(options, candidate));
    if (!states.back().slow) order.push_back(states.size() - 1);
  }
  const auto begin = SteadyClock::now();
  for (int round = 0; !order.empty() && round < options.max_rounds; ++round) {
    const std::chrono::duration<double> spent = SteadyClock::now() - begin;
    if (round >= options.min_rounds && spent.count() > options.budget_seconds) {
      break;
    }
    for (size_t c : order) {
      states[c].samples.push_back(
          Sample(options, candidates[c], states[c].calls));
    }
    // Nobody always runs in the wake of the same neighbour.
    std::rotate(order.begin(), order.begin() + 1, order.end());
    if (round % 2 == 1) std::reverse(order.begin(), order.end());
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Summary summary = Summarize(states[i].samples);
    Row& row = candidates[i].row;
    row.ms = summary.median * 1e3;
    row.spread = summary.spread;
    row.gflops =
        summary.median > 0 ? candidates[i].flops / summary.median * 1e-9 : 0;
  }
}

std::optional<int64_t> ResidentGrowth(const std::function<void()>& call) {
  // "5" resets the peak (VmHWM) to what is resident now.
  const bool reset = static_cast<bool>(std::ofstream("/proc/self/clear_refs")
                                       << "5" << std::flush);
  const std::optional<int64_t> before = StatusBytes("VmRSS:");
  call();
  const std::optional<int64_t> peak = StatusBytes("VmHWM:");
  if (!reset || !before || !peak) return std::nullopt;
  return std::max<int64_t>(0, *peak - *before);
}

}  // namespace headwise::bench
