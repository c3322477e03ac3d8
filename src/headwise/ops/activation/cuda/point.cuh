// Activations of one number, the formulas of the reference in f32. Only .cu
// files include this.
#pragma once

#include "headwise/ops/activation/activation.h"

namespace headwise::cuda {

struct ActivationPoint {
  float value;
  float slope;
};

// What is not asked for the compiler leaves out.
template <Activation kKind>
__device__ ActivationPoint ActivationAt(float x) {
  if constexpr (kKind == Activation::kRelu) {
    return x > 0 ? ActivationPoint{x, 1} : ActivationPoint{0, 0};
  } else if constexpr (kKind == Activation::kGelu) {
    const float phi = 0.5f * (1 + erff(x * 0.70710678f));
    const float density = 0.39894228f * expf(-0.5f * x * x);
    return {x * phi, phi + x * density};
  } else if constexpr (kKind == Activation::kGeluTanh) {
    const float root = 0.79788456f, cubic = 0.044715f;
    const float t = tanhf(root * (x + cubic * x * x * x));
    const float inner = root * (1 + 3 * cubic * x * x);
    return {0.5f * x * (1 + t),
            0.5f * (1 + t) + 0.5f * x * (1 - t * t) * inner};
  } else if constexpr (kKind == Activation::kSilu) {
    const float s = 1 / (1 + expf(-x));
    return {x * s, s + x * s * (1 - s)};
  } else if constexpr (kKind == Activation::kClampedSilu) {
    const float limit = kClampedSiluLimit, steep = kClampedSiluSlope;
    const float c = fminf(x, limit), s = 1 / (1 + expf(-steep * c));
    return {c * s, x > limit ? 0 : s + steep * c * s * (1 - s)};
  } else {
    static_assert(kKind == Activation::kTanh);
    const float t = tanhf(x);
    return {t, 1 - t * t};
  }
}

// What f(x) is multiplied with, of u.
template <Activation kKind>
__device__ ActivationPoint UpAt(float u) {
  if constexpr (kKind == Activation::kClampedSilu) {
    const float limit = kClampedSiluLimit;
    return {1 + fminf(fmaxf(u, -limit), limit),
            fabsf(u) <= limit ? 1.0f : 0.0f};
  }
  return {u, 1};
}

}  // namespace headwise::cuda
