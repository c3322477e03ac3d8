// One rule for numbers: a run whose residual stream, or what is made of it,
// holds NaN, infinity or values too large for a norm's squares ends with an
// Error that names the layer and, where it can be found, the weight. Models in
// training are left to their trainer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/parameter.h"

namespace headwise {

// The squares of a row of 10^4 such values still have a sum in f32. What
// trained models hold is below 10^5.
inline constexpr float kMostFinite = 1e17f;

// Whether runs look at their numbers after each step. On a device, where
// looking means waiting, they look at the end: what is not finite stays so.
inline bool ChecksEachStep(const Context& context) {
  return context.device().is_cpu();
}

// The weights that may be at fault for numbers that are not finite.
struct NumberSource {
  std::string where;  // the activation: "layer.3.mlp.output"
  std::vector<const Parameter*> weights;
};

// Throws Error(kCorrupt) for values of which AllWithin(kMostFinite) is false:
// the first such value, and the weight that is not finite or, failing that, the
// largest one beyond reason.
[[noreturn]] void ThrowNotFinite(Context& context, const NumberSource& source,
                                 const ConstTensorView& values);

// The same for values of a weight that are read by themselves. `values`: the
// weight, or the part of it that is used.
void RequireFinite(Context& context, const Parameter& weight,
                   const ConstTensorView& values);

}  // namespace headwise
