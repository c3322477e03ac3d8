// From measured sweeps to a number of heads. Door: head_advice.h.
#include "headwise/study/advice/head_advice.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "headwise/error.h"

namespace headwise {
namespace {

constexpr int64_t kLong = 16384;  // tokens from which the cache decides
constexpr int64_t kWide = 4096;   // width from which heads are of 128

[[noreturn]] void Refuse(const std::string& found) {
  throw Error(
      ErrorCode::kInvalidArgument,
      {"recommend",
       "WIDTH,LAYERS,TOKENS, whole numbers from 1 on that a model can have",
       found, "for example: `recommend` 768,12,1024"});
}

// The sweep of the nearest width, up to a factor of two; null: none.
const HeadSweep* NearestSweep(int64_t width) {
  const HeadSweep* nearest = nullptr;
  double least = std::log(2) + 1e-9;
  for (const HeadSweep& sweep : MeasuredSweeps()) {
    const double away = std::abs(std::log(static_cast<double>(sweep.width) /
                                          static_cast<double>(width)));
    if (away >= least) continue;
    least = away;
    nearest = &sweep;
  }
  return nearest;
}

// As wide as the best heads of a sweep; in narrower models as many as those:
// fewer did worse.
int64_t BestHeadDim(const HeadSweep& sweep, int64_t width) {
  return std::max<int64_t>(1,
                           std::min(width, sweep.width) / sweep.Best().heads);
}

// What models are built with where nothing was measured.
int64_t UsualHeadDim(const ModelSize& size) {
  const HeadSweep& narrowest = MeasuredSweeps().front();
  if (size.width < narrowest.width) return BestHeadDim(narrowest, size.width);
  return size.width >= kWide || size.tokens > kLong ? 128 : 64;
}

// The divisor of the width that is nearest to the usual size by ratio, not
// beyond half or twice of it; else the usual size: W_O brings any number of
// heads back to the width.
int64_t HeadDimFor(const ModelSize& size, int64_t usual) {
  int64_t best = 0;
  double least = std::log(2) + 1e-9;
  const int64_t most = std::min(size.width, 2 * usual);
  for (int64_t dim = std::max<int64_t>(1, usual / 2); dim <= most; ++dim) {
    if (size.width % dim != 0) continue;
    const double away = std::abs(
        std::log(static_cast<double>(dim) / static_cast<double>(usual)));
    if (away >= least) continue;
    least = away;
    best = dim;
  }
  return best > 0 ? best : usual;
}

std::string Measured(const HeadSweep& sweep) {
  std::string losses;
  for (const HeadSweep::Point& point : sweep.points) {
    losses += fmt::format("{}{} × {}: {:.2f}", losses.empty() ? "" : ", ",
                          point.heads, sweep.width / point.heads, point.loss);
  }
  const std::vector<HeadSweep::Point> ties = sweep.Ties();
  const int64_t fewest = sweep.Best().heads;
  const std::string best = fmt::format(
      "{}{} had the lowest {} ({:.2f}{})", fewest,
      ties.size() > 1 ? fmt::format(" to {} heads", ties.back().heads)
                      : fmt::format(" × {}", sweep.width / fewest),
      sweep.unit, sweep.Best().loss,
      ties.size() > 1
          ? fmt::format(" with {} × {}", fewest, sweep.width / fewest)
          : "");
  return fmt::format("{} at width {}: {}; {} ({})",
                     sweep.ours ? "measured" : "published", sweep.width, best,
                     sweep.source, losses);
}

std::string ReasonFor(const ModelSize& size, const HeadSweep* sweep) {
  if (sweep != nullptr) return Measured(*sweep);
  if (size.tokens > kLong) {
    return "not measured here: very long models are built with wide heads, "
           "which can tell more keys apart, and with few key and value heads, "
           "since the cache grows with them";
  }
  if (size.width >= kWide) {
    return "not measured here: very large models are built with heads of 128, "
           "as many as fit, and eight of keys and values for them all";
  }
  if (size.width < MeasuredSweeps().front().width) {
    return fmt::format(
        "not measured here: below width {} as many heads as were best there",
        MeasuredSweeps().front().width);
  }
  return "not measured here: models of this width are built with heads of 64";
}

// The most heads of keys and values up to `most` that divide the heads.
int64_t Sharing(int64_t heads, int64_t most) {
  int64_t kv_heads = std::min(heads, most);
  while (heads % kv_heads != 0) --kv_heads;
  return kv_heads;
}

}  // namespace

const char* Name(AdviceBasis basis) {
  switch (basis) {
    case AdviceBasis::kMeasured:
      return "measured";
    case AdviceBasis::kPublished:
      return "published";
    case AdviceBasis::kConvention:
      return "convention";
  }
  return "?";
}

ModelSize ParseModelSize(const std::string& text) {
  int64_t numbers[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    const auto [next, error] = std::from_chars(at, end, numbers[i]);
    const bool last = i == 2;
    if (error != std::errc() || (last ? next != end : next == end) ||
        (!last && *next != ',')) {
      Refuse(fmt::format("\"{}\"", text));
    }
    at = next + (last ? 0 : 1);
  }
  return {numbers[0], numbers[1], numbers[2]};
}

HeadAdvice RecommendHeads(const ModelSize& size) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (std::min({size.width, size.layers, size.tokens}) < 1 ||
      std::max({size.width, size.layers, size.tokens}) > kMost) {
    Refuse(fmt::format("{},{},{}", size.width, size.layers, size.tokens));
  }
  HeadAdvice advice;
  // The sweeps were of short texts.
  if (size.tokens <= kLong) advice.sweep = NearestSweep(size.width);
  if (advice.sweep != nullptr) {
    advice.basis =
        advice.sweep->ours ? AdviceBasis::kMeasured : AdviceBasis::kPublished;
  }
  const int64_t usual = advice.sweep != nullptr
                            ? BestHeadDim(*advice.sweep, size.width)
                            : UsualHeadDim(size);
  advice.head_dim = std::min(HeadDimFor(size, usual), size.width);
  advice.heads = std::max<int64_t>(1, size.width / advice.head_dim);
  advice.kv_heads = size.tokens > kLong || size.width >= kWide
                        ? Sharing(advice.heads, 8)
                        : advice.heads;
  const auto tokens = static_cast<double>(size.tokens);
  advice.cache_bytes = 2.0 * 2.0 * static_cast<double>(size.layers) *
                       static_cast<double>(advice.kv_heads * advice.head_dim) *
                       tokens;
  advice.map_bytes = 4.0 * static_cast<double>(advice.heads) * tokens * tokens;
  advice.reason = ReasonFor(size, advice.sweep);
  return advice;
}

}  // namespace headwise
