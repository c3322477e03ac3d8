// Looking for what is not finite. Door: finite.h.
#include "headwise/nn/finite.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <optional>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/error.h"

namespace headwise {
namespace {

constexpr int64_t kValuesPerTask = 65536;
// A weight this large is what made numbers overflow.
constexpr float kLargestWeight = 1e9f;

// Without its sign, a float's bits order as its size does; NaN and infinity
// come last.
bool Below(const float* values, int64_t count) {
  constexpr int32_t kLimit = std::bit_cast<int32_t>(kMostFinite);
  int32_t beyond = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t size = std::bit_cast<int32_t>(values[i]) & 0x7fffffff;
    beyond |= static_cast<int32_t>(size > kLimit);
  }
  return beyond == 0;
}

std::string Show(float value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-infinity" : "infinity";
  return fmt::format("{:.3g}", value);
}

struct Culprit {
  const Parameter* weight = nullptr;
  int64_t at = 0;
  float value = 0;
};

std::string Show(const Culprit& culprit) {
  const ConstTensorView& view = culprit.weight->value;
  const int64_t columns = view.shape[view.rank - 1];
  const std::string place =
      view.rank == 2
          ? fmt::format("{}, {}", culprit.at / columns, culprit.at % columns)
          : std::to_string(culprit.at);
  return fmt::format("{} in {} [{}]", Show(culprit.value), culprit.weight->name,
                     place);
}

// The first weight that is not finite; else the largest beyond reason.
std::optional<Culprit> FindCulprit(
    const std::vector<const Parameter*>& weights) {
  std::optional<Culprit> largest;
  for (const Parameter* weight : weights) {
    if (!*weight) continue;
    const Tensor values = ToF32(*weight);
    for (int64_t i = 0; i < values.size(); ++i) {
      const float value = values.As<float>()[i];
      if (!std::isfinite(value)) return Culprit{weight, i, value};
      if (std::abs(value) > kLargestWeight &&
          (!largest || std::abs(value) > std::abs(largest->value))) {
        largest = Culprit{weight, i, value};
      }
    }
  }
  return largest;
}

[[noreturn]] void Throw(const std::string& where, const std::string& found,
                        const std::string& hint) {
  throw Error(ErrorCode::kCorrupt, {where, "finite numbers", found, hint});
}

}  // namespace

bool AllFinite(Context& context, const float* values, int64_t count) {
  if (count <= kValuesPerTask) return Below(values, count);
  std::atomic<bool> finite = true;
  context.pool().ParallelFor(
      (count + kValuesPerTask - 1) / kValuesPerTask, [&](int64_t task, int) {
        const int64_t begin = task * kValuesPerTask;
        if (!Below(values + begin, std::min(kValuesPerTask, count - begin))) {
          finite.store(false, std::memory_order_relaxed);
        }
      });
  return finite;
}

void ThrowNotFinite(const NumberSource& source, const float* values,
                    int64_t count) {
  int64_t first = 0;
  while (first + 1 < count && Below(values + first, 1)) ++first;
  std::string found = Show(values[first]);
  if (const auto culprit = FindCulprit(source.weights)) {
    found += ", by " + Show(*culprit);
    Throw(source.where, found, "the checkpoint is damaged");
  }
  Throw(source.where, found,
        "the weights that were used there are finite: the model's numbers "
        "overflow");
}

void RequireFinite(const Parameter& weight, const Tensor& values) {
  for (int64_t i = 0; i < values.size(); ++i) {
    const float value = values.As<float>()[i];
    if (Below(&value, 1)) continue;
    Throw(weight.name, Show(value), "the checkpoint is damaged");
  }
}

}  // namespace headwise
