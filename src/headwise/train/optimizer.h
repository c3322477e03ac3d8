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
#include "headwise/dist/group.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/parameters.h"
#include "headwise/ops/adamw/adamw.h"

namespace headwise {

// What a checkpoint holds of an optimizer: NAME.first and NAME.second of each
// parameter, f32 on the host.
struct OptimizerState {
  std::vector<NamedTensor> tensors;
  std::vector<Tensor> copies;  // of what does not lie on the host
};

class Optimizer {
 public:
  // The store must outlive the optimizer and have its gradients already.
  // Moments lie on the context's device, which is the store's.
  Optimizer(Context& context, ParameterStore& store);

  // From now on each rank of the group, which is borrowed, keeps the moments of
  // its share of the parameters alone, steps those and gets the others' from
  // the other ranks: as large a store on all of them, the same numbers. Before
  // the first step; what was restored is lost.
  void ShareAmong(Context& context, dist::Group& group);

  // √Σ g² over all parameters.
  double GradientNorm(Context& context) const;
  // One step with gradients scaled so that their norm, `norm`, becomes at most
  // `clip` (0: any). how: rate, betas, epsilon; decay is for matrices.
  void Step(Context& context, AdamWProblem how, double norm, double clip);

  // Multiplies the rate of parameters whose names end so.
  void ScaleRate(std::string_view ending, double factor);

  int64_t steps() const { return steps_; }

  // Bytes of the moments that this rank keeps.
  int64_t state_bytes() const;

  // The whole state. Where ranks share it all of them call this and the first
  // gets it; the others' is empty. Borrows the moments where they lie.
  OptimizerState State(Context& context) const;
  // Throws Error(kCorrupt) naming the tensor that is absent or does not fit.
  // Its memory may be read until the context is synchronized.
  void Restore(Context& context, const Safetensors& state, int64_t steps);

 private:
  // Elements of one of the store's buffers.
  struct Range {
    size_t buffer = 0;
    int64_t begin = 0, end = 0;
    bool decays = false;
    float rate_scale = 1;
  };
  // Parameters end to end that are stepped alike.
  std::vector<Range> Ranges() const;
  Range RangeOf(const std::string& name) const;
  // The range of it that a rank keeps; begin = end: nothing.
  Range KeptBy(int rank, Range range) const;
  Range KeptHere(const Range& range) const;
  // Moments of what is kept here.
  TensorView Moment(std::vector<Tensor>& all, const Range& range) const;
  int64_t Cut(size_t buffer, int rank) const;
  void MakeMoments(Context& context);
  void ExchangeValues(Context& context);
  Tensor Gather(Context& context, const Tensor& moments, size_t buffer) const;

  ParameterStore& store_;
  dist::Group* group_ = nullptr;  // null: all is kept here
  // One each of the store's buffers, of what is kept, laid out as it is.
  std::vector<Tensor> first_, second_;
  std::map<std::string, float> rate_scales_;  // of what is trained
  int64_t steps_ = 0;
};

}  // namespace headwise
