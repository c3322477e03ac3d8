// Door: alibi_slopes.h.
#include "headwise/nn/alibi_slopes.h"

#include <bit>
#include <cmath>
#include <utility>

#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

float SlopeOfHead(int64_t head, int64_t all) {
  const auto whole =
      static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(all)));
  const bool first = head < whole;
  const int64_t power = first ? head + 1 : 2 * (head - whole) + 1;
  const int64_t of = first ? whole : 2 * whole;
  return static_cast<float>(
      std::exp2(-8.0 * static_cast<double>(power) / static_cast<double>(of)));
}

}  // namespace

AlibiSlopes::AlibiSlopes(int64_t all, std::vector<int32_t> columns)
    : columns_(std::move(columns)) {
  std::vector<float> slopes;
  for (const int32_t column : columns_) {
    slopes.push_back(SlopeOfHead(column, all));
  }
  host_ = std::make_shared<const std::vector<float>>(std::move(slopes));
  values_ = Values({.name = "alibi_slopes", .value = ViewOf(*host_)});
}

}  // namespace headwise
