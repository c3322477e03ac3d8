// AdamW over a model's parameters, with clipping by the global norm. Decay
// applies to matrices, not to norms and biases.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/context.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/parameters.h"
#include "headwise/ops/adamw/adamw.h"

namespace headwise {

class Optimizer {
 public:
  // The store must outlive the optimizer and have its gradients already.
  // Moments lie on the context's device, which is the store's.
  Optimizer(Context& context, ParameterStore& store);

  // √Σ g² over all parameters.
  double GradientNorm(Context& context) const;
  // One step with gradients scaled so that their norm, `norm`, becomes at most
  // `clip` (0: any). how: rate, betas, epsilon; decay is for matrices.
  void Step(Context& context, AdamWProblem how, double norm, double clip);

  // Multiplies the rate of parameters whose names end so.
  void ScaleRate(std::string_view ending, double factor);

  int64_t steps() const { return steps_; }

  // The state, a safetensors file: NAME.first and NAME.second of each
  // parameter.
  void Save(Context& context, const std::filesystem::path& file) const;
  // Throws Error(kCorrupt) naming the tensor that is absent or does not fit.
  // What it holds may be read until the context is synchronized.
  void Restore(Context& context, const Safetensors& state, int64_t steps);

 private:
  // Of one parameter, [N] of the buffers below.
  struct Moments {
    TensorView first;
    TensorView second;
    float rate_scale = 1;
  };

  // Parameters end to end that are stepped alike.
  struct Range {
    size_t buffer = 0;
    int64_t begin = 0, end = 0;
    bool decays = false;
    float rate_scale = 1;
  };
  std::vector<Range> Ranges() const;

  ParameterStore& store_;
  // One each of the store's buffers, laid out as it is.
  std::vector<Tensor> first_, second_;
  std::map<std::string, Moments> moments_;
  int64_t steps_ = 0;
};

}  // namespace headwise
