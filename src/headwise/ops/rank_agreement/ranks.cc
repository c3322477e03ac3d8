// Door: ranks.h.
#include "headwise/ops/rank_agreement/ranks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "headwise/ops/rank_agreement/tile.h"

namespace headwise {

Ranks RanksOf(std::span<const float> values) {
  const size_t n = values.size();
  std::vector<RankEntry> order(n);
  for (size_t i = 0; i < n; ++i) {
    order[i] = EntryOf(values[i], static_cast<uint32_t>(i));
  }
  std::sort(order.begin(), order.end());
  Ranks ranks;
  ranks.centred.resize(n);
  const double middle = (static_cast<double>(n) - 1) / 2;
  double squares = 0;
  for (size_t i = 0; i < n;) {
    size_t end = i + 1;
    while (end < n && KeyOf(order[end]) == KeyOf(order[i])) ++end;
    const double rank = (static_cast<double>(i + end) - 1) / 2 - middle;
    for (; i < end; ++i) {
      ranks.centred[PlaceOf(order[i])] = rank;
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
