// Norms of queries or keys, heads [T, H, D]: of each head by itself, with one
// weight for all heads (Qwen3) or a weight for each (StableLM), or of all heads
// together, H·D numbers (OLMo 2).
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/norm.h"

namespace headwise {

// One for each norm.
using HeadNormsSaved = std::vector<NormSaved>;

class HeadNorms {
 public:
  HeadNorms() = default;
  HeadNorms(Norm norm);  // NOLINT: one norm is the usual case
  // One a head.
  explicit HeadNorms(std::vector<Norm> each) : norms_(std::move(each)) {}

  explicit operator bool() const { return !norms_.empty(); }
  const std::vector<Norm>& norms() const { return norms_; }
  // Whether they fit heads of D numbers.
  bool Fits(int64_t heads, int64_t head_dim) const;
  // Whether all heads of D numbers have one norm, each by itself.
  bool IsAlike(int64_t head_dim) const;
  // What a head's numbers are multiplied by, f32 [D] on the host.
  Tensor Gain(Context& context, int64_t head, int64_t head_dim) const;

  // In place on x [T, H, D], any token stride, heads side by side. saved: for
  // Backward; may be null.
  void Forward(Context& context, TensorView x, HeadNormsSaved* saved) const;
  // In place on dx [T, H, D]; x as before the forward, of the same strides.
  void Backward(Context& context, ConstTensorView x,
                const HeadNormsSaved& saved, TensorView dx) const;

 private:
  std::vector<Norm> norms_;
};

}  // namespace headwise
