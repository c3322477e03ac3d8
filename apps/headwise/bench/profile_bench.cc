// Door: profile_bench.h.
#include "bench/profile_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bench/random_model.h"
#include "headwise/base/rng.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/runtime/session.h"
#include "headwise/runtime/windows.h"

namespace headwise::bench {
namespace {

// Tokens of a round: several calls of the device's, so that one is prepared
// while another runs.
constexpr int64_t kRoundTokens = int64_t{1} << 20;
constexpr int64_t kRoundTokensOnCpu = int64_t{1} << 13;

int64_t RoundTokens(Device device) {
  return device.is_cpu() ? kRoundTokensOnCpu : kRoundTokens;
}

std::vector<TokenWindow> RandomWindows(int64_t length, int64_t count,
                                       int64_t vocabulary) {
  std::vector<TokenWindow> windows;
  for (int64_t n = 0; n < count; ++n) {
    Rng rng(11, static_cast<uint64_t>(n));
    std::vector<int32_t> ids(static_cast<size_t>(length));
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(rng.Below(static_cast<uint64_t>(vocabulary)));
    }
    windows.push_back(WindowOfIds(std::move(ids)));
  }
  return windows;
}

// The same runs with nobody watching, so many tokens a call.
void RunAlone(Context& context, const Model& model,
              const std::vector<TokenWindow>& windows) {
  constexpr int64_t kCallTokens = 65536;
  RunHooks nothing;
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
  for (const TokenWindow& window : windows) {
    ids.insert(ids.end(), window.source.ids.begin(), window.source.ids.end());
    lengths.push_back(window.source.size());
    if (static_cast<int64_t>(ids.size()) < kCallTokens &&
        &window != &windows.back()) {
      continue;
    }
    ForwardToLastAttention(context, model,
                           {.ids = ids, .lengths = lengths, .hooks = &nothing});
    ids.clear();
    lengths.clear();
  }
  context.Synchronize();
}

double SecondsOf(const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

ProfileBenchResult BenchProfile(const ContextOptions& where,
                                const ProfileBenchOptions& options) {
  Context context(where);
  ModelConfig config = NamedShape(options.shape);
  config.context = std::max(config.context, options.length);
  const std::unique_ptr<Model> model =
      RandomModel(context, config, options.type);
  ProfileOptions settings;
  settings.metrics = options.metrics.value_or(MetricSet::kCore);
  settings.context = options.length;
  Profiler profiler(context, *model, nullptr, options.shape, "", settings);
  const int64_t count =
      std::max<int64_t>(1, RoundTokens(context.device()) / options.length);
  const std::vector<TokenWindow> windows =
      RandomWindows(options.length, count, config.vocabulary);
  const auto time_round = [&] {
    std::vector<TokenWindow> copy = windows;
    return SecondsOf([&] {
      options.metrics ? profiler.AddWindows(std::move(copy))
                      : RunAlone(context, *model, copy);
    });
  };
  time_round();
  ProfileBenchResult result;
  result.model = options.shape;
  result.device = ToString(context.device());
  result.type = Name(options.type);
  result.metrics = options.metrics ? Name(*options.metrics) : "no";
  result.length = options.length;
  std::vector<double> rounds;
  do {
    rounds.push_back(time_round());
    result.seconds += rounds.back();
    result.tokens += count * options.length;
  } while (result.seconds < options.seconds);
  std::sort(rounds.begin(), rounds.end());
  const double median = rounds[rounds.size() / 2];
  result.tokens_per_second =
      static_cast<double>(count * options.length) / median;
  result.spread = (rounds.back() - rounds.front()) / median;
  return result;
}

std::string Table(const ProfileBenchResult& r) {
  return fmt::format(
      "profile: {}, windows of {}, {} metrics, {} on {}\n"
      "  {:.0f} tokens/s, the median of {:.1f} s, {:.1f} % spread\n",
      r.model, r.length, r.metrics, r.type, r.device, r.tokens_per_second,
      r.seconds, 100 * r.spread);
}

Json ToJson(const ProfileBenchResult& r) {
  return {{"op", "profile"},      {"impl", "headwise"},
          {"model", r.model},     {"device", r.device},
          {"type", r.type},       {"metrics", r.metrics},
          {"length", r.length},   {"tokens", r.tokens},
          {"seconds", r.seconds}, {"tokens_per_second", r.tokens_per_second},
          {"spread", r.spread}};
}

}  // namespace headwise::bench
