// Looking for what is not finite. Door: finite.h.
#include "headwise/nn/finite.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <optional>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"

namespace headwise {
namespace {

// A weight this large is what made numbers overflow.
constexpr float kLargestWeight = 1e9f;

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

void ThrowNotFinite(Context& context, const NumberSource& source,
                    const ConstTensorView& values) {
  const int64_t first = FirstBeyond(context, values, kMostFinite);
  std::string found = Show(ToVector<float>(context, values)[first]);
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
    if (std::abs(value) <= kMostFinite) continue;
    Throw(weight.name, Show(value), "the checkpoint is damaged");
  }
}

}  // namespace headwise
