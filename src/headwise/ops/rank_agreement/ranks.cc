// Door: ranks.h.
#include "headwise/ops/rank_agreement/ranks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace headwise {
namespace {

// A number that orders as the float does, equal for 0 and −0.
uint32_t OrderOf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000;
}

}  // namespace

Ranks RanksOf(std::span<const float> values) {
  const size_t n = values.size();
  // Values above, indices below: sorted as whole numbers.
  std::vector<uint64_t> order(n);
  for (size_t i = 0; i < n; ++i) {
    order[i] = (uint64_t{OrderOf(values[i])} << 32) | i;
  }
  std::sort(order.begin(), order.end());
  Ranks ranks;
  ranks.centred.resize(n);
  const double middle = (static_cast<double>(n) - 1) / 2;
  double squares = 0;
  for (size_t i = 0; i < n;) {
    size_t end = i + 1;
    while (end < n && order[end] >> 32 == order[i] >> 32) ++end;
    const double rank = (static_cast<double>(i + end) - 1) / 2 - middle;
    for (; i < end; ++i) {
      ranks.centred[static_cast<uint32_t>(order[i])] = rank;
      squares += rank * rank;
    }
  }
  ranks.norm = std::sqrt(squares);
  return ranks;
}

double Correlation(const Ranks& a, const Ranks& b) {
  if (a.norm == 0 || b.norm == 0) return 0;
  double sum = 0;
  for (size_t i = 0; i < a.centred.size(); ++i) {
    sum += a.centred[i] * b.centred[i];
  }
  return sum / (a.norm * b.norm);
}

}  // namespace headwise
