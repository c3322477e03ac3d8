// Looking for what is not finite. Door: finite.h.
#include "headwise/nn/finite.h"

#include <fmt/core.h>

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
    Context& context, const std::vector<const Parameter*>& weights) {
  std::optional<Culprit> largest;
  for (const Parameter* weight : weights) {
    if (!*weight) continue;
    const auto values = ToVector<float>(context, weight->value);
    for (size_t i = 0; i < values.size(); ++i) {
      const float value = values[i];
      if (!std::isfinite(value))
        return Culprit{weight, static_cast<int64_t>(i), value};
      if (std::abs(value) > kLargestWeight &&
          (!largest || std::abs(value) > std::abs(largest->value))) {
        largest = Culprit{weight, static_cast<int64_t>(i), value};
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
  if (const auto culprit = FindCulprit(context, source.weights)) {
    found += ", by " + Show(*culprit);
    Throw(source.where, found, "the checkpoint is damaged");
  }
  Throw(source.where, found,
        "the weights that were used there are finite: the model's numbers "
        "overflow");
}

void RequireFinite(Context& context, const Parameter& weight,
                   const ConstTensorView& values) {
  const int64_t first = FirstBeyond(context, values, kMostFinite);
  if (first < 0) return;
  Throw(weight.name, Show(ToVector<float>(context, values)[first]),
        "the checkpoint is damaged");
}

}  // namespace headwise
