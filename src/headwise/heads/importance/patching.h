// Which heads a prediction comes from. For a prompt, a counterfactual and two
// answers: what each head adds to the difference of the answers' logits by
// itself (direct logit attribution), and how much of it goes when the head's
// output is taken from the counterfactual's run (activation patching).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/importance/statistics.h"
#include "headwise/model/head_ref.h"
#include "headwise/patch.h"
#include "headwise/runtime/text_pass.h"

namespace headwise {

struct PatchNeeds {
  int64_t batch_tokens = 1024;
  int64_t replicates = 2000;
  PassOptions pass = {};
};

// Throws Error: kUnsupported for models other than causal ones with a pre-norm
// residual stream; kInvalidArgument for a prompt and counterfactual of
// different lengths (with both), or fewer than two tokens.
PatchResult Patch(Context& context, const Model& model,
                  std::span<const PatchCase> cases, const PatchJob& job = {},
                  const PatchNeeds& needs = {});

// The parts of every case's difference, for the stack that predicts. It runs
// all layers twice; after_layer: called after each, may be empty.
std::vector<LogitParts> AttributeLogits(
    Context& context, const Model& model, std::span<const PatchCase> cases,
    const std::function<void()>& after_layer = {});

}  // namespace headwise
