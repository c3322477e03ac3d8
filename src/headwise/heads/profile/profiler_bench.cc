// What profiling costs over a plain forward pass, on two threads: both in
// turns on the same windows of random tokens, probes left out; and over a pass
// that ends, as a profile's does, with the last attention. Models are
// looked for in $HEADWISE_MODELS.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/model/checkpoint.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

constexpr int64_t kTokens = 2048;  // as many as the profiler runs together

double Seconds(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

// Arguments: tokens of a window.
void Overhead(benchmark::State& state, const char* name) {
  const char* folder = std::getenv("HEADWISE_MODELS");
  const auto path = std::filesystem::path(folder ? folder : ".") / name;
  if (!std::filesystem::exists(path)) {
    state.SkipWithError("the model is absent; set HEADWISE_MODELS");
    return;
  }
  const Checkpoint checkpoint(path);
  const Model& model = checkpoint.model();
  Context context({.threads = 2, .implementations = ""});
  const int64_t length = state.range(0), count = kTokens / length;
  Rng rng(1);
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths(count, length);
  std::vector<TokenWindow> windows;
  for (int64_t w = 0; w < count; ++w) {
    std::vector<int32_t> row;
    for (int64_t i = 0; i < length; ++i) {
      // Small ids more often, as words are.
      const double u = rng.Uniform();
      row.push_back(static_cast<int32_t>(
          u * u * u * static_cast<double>(model.config().vocabulary - 1)));
    }
    ids.insert(ids.end(), row.begin(), row.end());
    windows.push_back(WindowOfIds(row));
  }
  ProfileOptions options;
  options.context = length;
  Profiler profiler(context, model, nullptr, name, "", options);
  const auto plain = [&] {
    Forward(context, model, {.ids = ids, .lengths = lengths});
  };
  const auto profile = [&] { profiler.AddWindows(windows); };
  const auto shorter = [&] {
    ForwardToLastAttention(context, model, {.ids = ids, .lengths = lengths});
  };
  plain();
  profile();
  double least_plain = 1e9, least_shorter = 1e9, least_profile = 1e9;
  for (auto _ : state) {
    const double q = Seconds(profile);
    least_plain = std::min(least_plain, Seconds(plain));
    least_shorter = std::min(least_shorter, Seconds(shorter));
    least_profile = std::min(least_profile, q);
    state.SetIterationTime(q);
  }
  state.counters["plain_ms"] = 1e3 * least_plain;
  state.counters["profile_ms"] = 1e3 * least_profile;
  state.counters["over_percent"] = 100 * (least_profile / least_plain - 1);
  state.counters["over_shorter_percent"] =
      100 * (least_profile / least_shorter - 1);
}

BENCHMARK_CAPTURE(Overhead, minilm, "minilm-l6")
    ->Arg(128)
    ->Arg(512)
    ->UseManualTime()
    ->MinTime(2);
BENCHMARK_CAPTURE(Overhead, minimind, "minimind2-small")
    ->Arg(128)
    ->Arg(512)
    ->Arg(2048)
    ->UseManualTime()
    ->MinTime(2);
BENCHMARK_CAPTURE(Overhead, stories15M, "stories15M")
    ->Arg(256)
    ->UseManualTime()
    ->MinTime(2);

}  // namespace
}  // namespace headwise
