// Sinusoids. Door: sinusoids.h.
#include "headwise/model/sinusoids.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// [rows, width]
std::vector<float> Angles(SinusoidRule rule, int64_t first, int64_t rows,
                          int64_t width) {
  std::vector<float> values(static_cast<size_t>(rows * width));
  const bool by_width = rule == SinusoidRule::kWidth;
  const int64_t half = by_width ? (width + 1) / 2 : width / 2;
  const double steps =
      by_width ? static_cast<double>(width) / 2 : static_cast<double>(half - 1);
  for (int64_t i = 0; i < half; ++i) {
    const double frequency = std::pow(10000.0, -static_cast<double>(i) / steps);
    for (int64_t p = 0; p < rows; ++p) {
      const double angle = static_cast<double>(first + p) * frequency;
      float* row = values.data() + p * width;
      row[i] = static_cast<float>(std::sin(angle));
      if (half + i < width) row[half + i] = static_cast<float>(std::cos(angle));
    }
  }
  return values;
}

}  // namespace

std::shared_ptr<const Tensor> Sinusoids::Table(Context& context,
                                               int64_t rows) const {
  constexpr int64_t kFewest = 64;
  const std::lock_guard lock(mutex_);
  const int64_t held = table_ ? table_->shape(0) : 0;
  if (rows <= held) return table_;
  // Doubled, so that a text that grows token by token seldom asks for more.
  const int64_t ample = std::min(std::max(kFewest, 2 * held), most_);
  const int64_t count = std::max(rows, ample);
  const std::vector<float> values = Angles(rule_, first_, count, width_);
  table_ = std::make_shared<const Tensor>(
      ToDevice(context, Reshaped(ViewOf(values), {count, width_})));
  context.Synchronize();  // `values` goes, and other contexts may read
  return table_;
}

}  // namespace headwise
