// Logits as directions of the residual stream: what is added to the stream
// before the final norm moves a difference of logits by its product with one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/model.h"

namespace headwise {

// A difference of logits = ⟨state after the final norm, direction⟩ + constant.
struct LogitDirection {
  std::vector<float> direction;  // [d]; empty: nothing is asked of this row
  double constant = 0;
};

// Empty where logits are one product of the normed stream, and layers add to
// it; else what is otherwise: "a soft cap of logits".
std::string WhyNoLogitDirections(const Model& model);
bool HasLogitDirections(const Model& model);

// logit[answer] − logit[other]. Throws Error: kInvalidArgument for ids outside
// the vocabulary, kCorrupt for weights that are not finite.
LogitDirection DirectionBetween(Context& context, const Model& model,
                                int32_t answer, int32_t other);

// logit[id] − the mean logit, for any number of ids.
class AboveMeanDirections {
 public:
  AboveMeanDirections(Context& context, const Model& model);
  LogitDirection Of(int32_t id) const;

 private:
  Context* context_;
  const Model& model_;
  std::vector<double> mean_;  // [d], of the vocabulary's rows
};

// Each row's direction as the residual stream sees it: through the final norm
// of the stack that predicts with its scale as it was, [rows, d]; for layer
// norms without the mean. Dividing by σ is folded in. stream: [rows, d], on any
// device; the directions are f32 on the host.
Tensor StreamDirections(Context& context, const Model& model,
                        ConstTensorView stream,
                        std::span<const LogitDirection> directions);

}  // namespace headwise
