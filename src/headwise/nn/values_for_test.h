// For tests: trainable weights and inputs by name, all random, and their
// gradients against finite differences of a loss.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/nn/linear.h"

namespace headwise::nn_test {

class TestValues {
 public:
  explicit TestValues(uint64_t seed = 11) : rng_(seed) {}

  Parameter Make(const std::string& name, std::initializer_list<int64_t> shape,
                 float base = 0) {
    Pair& pair = pairs_[name];
    pair.value = Tensor(DType::kF32, shape);
    pair.gradient = Tensor(DType::kF32, shape);
    for (int64_t i = 0; i < pair.value.size(); ++i) {
      pair.value.As<float>()[i] =
          base + 0.5f * static_cast<float>(rng_.Normal());
    }
    return {name, std::as_const(pair.value).view(), pair.gradient.view()};
  }
  // Of several weights side by side, with biases.
  Linear MakeLinear(const std::string& name, const std::vector<int64_t>& outs,
                    int64_t in, WeightLayout layout = WeightLayout::kOutIn) {
    std::vector<Linear::Part> parts;
    for (size_t p = 0; p < outs.size(); ++p) {
      const std::string part = name + "." + std::to_string(p);
      parts.push_back({layout == WeightLayout::kOutIn
                           ? Make(part + ".weight", {outs[p], in})
                           : Make(part + ".weight", {in, outs[p]}),
                       Make(part + ".bias", {outs[p]})});
    }
    return Linear(std::move(parts), layout);
  }
  Tensor& value(const std::string& name) { return pairs_.at(name).value; }
  Tensor& gradient(const std::string& name) { return pairs_.at(name).gradient; }

  // Gradients, now filled, against differences of loss(), a few of each.
  void Check(const std::function<double()>& loss, int samples = 12) {
    for (auto& [name, pair] : pairs_) {
      if (pair.value.size() == 0) continue;
      for (int sample = 0; sample < samples; ++sample) {
        const int64_t i = rng_.Between(0, pair.value.size() - 1);
        float& w = pair.value.As<float>()[i];
        const float kept = w;
        auto at = [&](double step) {
          w = kept + static_cast<float>(step);
          return loss();
        };
        // Fourth order: f32 forwards allow no tiny step.
        const double h = 0.02;
        const double slope =
            (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
        w = kept;
        EXPECT_NEAR(pair.gradient.As<float>()[i], slope,
                    1e-3 * std::max(1.0, std::abs(slope)))
            << name << " [" << i << "]";
      }
    }
  }

 private:
  struct Pair {
    Tensor value, gradient;
  };
  std::map<std::string, Pair> pairs_;
  Rng rng_;
};

inline Tensor RandomTensor(std::initializer_list<int64_t> shape,
                           uint64_t seed) {
  Tensor tensor(DType::kF32, shape);
  Rng rng(seed);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    tensor.As<float>()[i] = static_cast<float>(rng.Normal());
  }
  return tensor;
}

inline double Dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a.As<float>()[i]) * b.As<float>()[i];
  }
  return sum;
}

}  // namespace headwise::nn_test
