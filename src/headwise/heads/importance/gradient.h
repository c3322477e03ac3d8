// Importance by gradients of gates (Michel et al. 2019): how fast the loss
// would change if a head were turned down, from one backward pass.
#pragma once

#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/importance/objective.h"
#include "headwise/model/head_ref.h"

namespace headwise {

// ∂(mean loss of a sequence)/∂g of one head, added up over the sequence.
struct GateGradient {
  double sum = 0;       // Σ_t ∂L/∂g_t
  double absolute = 0;  // Σ_t |∂L/∂g_t|
};

// What the gradients are of: a model without a head, whose distance from itself
// has gradient 0, is judged by kContrastive.
LossKind GradientLossOf(const Model& model);

// [heads][sequences]. Throws Error(kInvalidArgument) for kContrastive with one
// sequence or one of fewer than two tokens of text.
std::vector<std::vector<GateGradient>> GateGradients(
    Context& context, const Model& model, const ExampleBatch& batch,
    std::span<const HeadRef> heads);

}  // namespace headwise
