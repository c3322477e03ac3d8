// Rules of thumb, and what they cost. Door: head_advice.h.
#include "headwise/study/head_advice.h"

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
       found, "for example: --recommend 768,12,1024"});
}

// Heads that are narrower lose (study head-count), and a head of width d_k
// ranks at most d_k + 1 keys freely (study rank); wider ones leave too few of
// them (study k-lookup).
int64_t UsualHeadDim(const ModelSize& size) {
  if (size.width <= 128) return 16;
  if (size.width <= 512) return 32;
  return size.width >= kWide || size.tokens > kLong ? 128 : 64;
}

// The divisor of the width that is nearest to the usual size by ratio, not
// beyond half or twice of it; else the usual size: W_O brings any number of
// heads back to the width.
int64_t HeadDimFor(const ModelSize& size) {
  const int64_t usual = UsualHeadDim(size);
  int64_t best = 0;
  double least = std::log(2) + 1e-9;
  const int64_t most = std::min(size.width, 2 * usual);
  for (int64_t dim = usual / 2; dim <= most; ++dim) {
    if (size.width % dim != 0) continue;
    const double away = std::abs(
        std::log(static_cast<double>(dim) / static_cast<double>(usual)));
    if (away >= least) continue;
    least = away;
    best = dim;
  }
  return best > 0 ? best : usual;
}

std::string ReasonFor(const ModelSize& size) {
  if (size.tokens > kLong) {
    return "very long: wide heads tell more keys apart; few key and value "
           "heads, since the cache grows with them";
  }
  if (size.width >= kWide) {
    return "very large: heads of 128 are wide enough, so as many as fit; "
           "eight of keys and values serve them all";
  }
  if (size.width <= 128) {
    return "very small: below 16 dimensions heads tell keys apart badly, so "
           "few of them";
  }
  return "heads of 32 to 64 dimensions; the optimum is flat around them";
}

// The most heads of keys and values up to `most` that divide the heads.
int64_t Sharing(int64_t heads, int64_t most) {
  int64_t kv_heads = std::min(heads, most);
  while (heads % kv_heads != 0) --kv_heads;
  return kv_heads;
}

}  // namespace

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
  advice.head_dim = std::min(HeadDimFor(size), size.width);
  advice.heads = std::max<int64_t>(1, size.width / advice.head_dim);
  advice.kv_heads = size.tokens > kLong || size.width >= kWide
                        ? Sharing(advice.heads, 8)
                        : advice.heads;
  const auto tokens = static_cast<double>(size.tokens);
  advice.cache_bytes = 2.0 * 2.0 * static_cast<double>(size.layers) *
                       static_cast<double>(advice.kv_heads * advice.head_dim) *
                       tokens;
  advice.map_bytes = 4.0 * static_cast<double>(advice.heads) * tokens * tokens;
  advice.reason = ReasonFor(size);
  return advice;
}

}  // namespace headwise
