// Which heads a prediction comes from. For a prompt, a counterfactual and two
// answers: what each head adds to the difference of the answers' logits by
// itself (direct logit attribution), and how much of it goes when the head's
// output is taken from the counterfactual's run (activation patching).
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "headwise/base/progress.h"
#include "headwise/context.h"
#include "headwise/heads/importance/statistics.h"
#include "headwise/model/head_ref.h"

namespace headwise {

struct PatchCase {
  std::vector<int32_t> prompt;
  // As many tokens as the prompt; empty in all cases: nothing is patched.
  std::vector<int32_t> counterfactual;
  int32_t answer = 0;  // whose logit …
  int32_t other = 0;   // … is compared with this one's
};

// The difference of the logits after the last token of a prompt, cut into what
// adds up to it. The final norm's scale is taken as it was.
struct LogitParts {
  std::vector<double> heads;  // ⟨z_h W_O^h / σ, W_U[answer] − W_U[other]⟩
  std::vector<double> mlps;   // one a layer
  std::vector<double> biases;  // of W_O, one a layer
  double embedding = 0;
  double constant = 0;  // of the final norm's and the vocabulary's biases

  double Sum() const;
};

struct PatchResult {
  int64_t cases = 0;
  std::vector<HeadRef> heads;
  Interval difference;      // logit of answer − other, after the prompt
  Interval counterfactual;  // after the counterfactual
  double preferred = 0;     // share of prompts whose answer's logit is larger
  LogitParts direct;        // means over cases
  // The difference lost when the head's output is the counterfactual's; empty
  // without counterfactuals. share: of difference − counterfactual, in all.
  std::vector<Interval> patched;
  std::vector<double> share;
};

struct PatchOptions {
  int64_t batch_tokens = 1024;
  int64_t replicates = 2000;
  uint64_t seed = 0;
  ProgressCallback progress = {};
  std::stop_token stop = {};
};

// Throws Error: kUnsupported for models other than causal ones with a pre-norm
// residual stream; kInvalidArgument for a prompt and counterfactual of
// different lengths (with both), or fewer than two tokens.
PatchResult Patch(Context& context, const Model& model,
                  std::span<const PatchCase> cases,
                  const PatchOptions& options = {});

// The parts of every case's difference, for the stack that predicts.
std::vector<LogitParts> AttributeLogits(Context& context, const Model& model,
                                        std::span<const PatchCase> cases);

}  // namespace headwise
