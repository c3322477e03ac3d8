// Which heads a prediction comes from.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/head_ref.h"
#include "headwise/loss.h"
#include "headwise/progress.h"

namespace headwise {

class Transformer;  // model.h

struct PatchCase {
  std::vector<int32_t> prompt = {};
  /// As many tokens as the prompt; empty in all cases: nothing is patched.
  std::vector<int32_t> counterfactual = {};
  int32_t answer = 0;  ///< whose logit …
  int32_t other = 0;   ///< … is compared with this one's
};

/// The difference of the logits after the last token of a prompt, cut into what
/// adds up to it. The final norm's scale is taken as it was.
struct LogitParts {
  /// ⟨z_h W_O^h / σ, W_U[answer] − W_U[other]⟩
  std::vector<double> heads = {};
  std::vector<double> mlps = {};    ///< one a layer
  std::vector<double> biases = {};  ///< biases of W_O, one a layer
  double embedding = 0;
  double constant =
      0;  ///< by the biases of the final norm and the vocabulary head

  HEADWISE_API double Sum() const;
};

struct PatchResult {
  int64_t cases = 0;
  /// Texts that were left out since they cannot be compared: those whose
  /// counterfactual has another number of tokens, and those whose answers begin
  /// with the same one.
  int64_t unequal = 0;
  int64_t ambiguous = 0;
  std::vector<HeadRef> heads = {};
  Interval difference = {};  ///< logit of answer − other, after the prompt
  Interval counterfactual = {};  ///< after the counterfactual
  double preferred = 0;    ///< share of prompts whose answer's logit is larger
  LogitParts direct = {};  ///< means over cases
  /// The difference lost when the head's output is the counterfactual's; empty
  /// without counterfactuals. share: of difference − counterfactual, in all.
  std::vector<Interval> patched = {};
  std::vector<double> share = {};
};

/// A prompt, its counterfactual and two answers, in words.
struct PatchText {
  std::string prompt = {};
  std::string counterfactual =
      {};  ///< as many tokens as `prompt`; "": nothing is patched
  std::string answer = {};  ///< whose first token …
  std::string other = {};   ///< … is compared with this one's
};

struct PatchJob {
  uint64_t seed = 0;
  PartialWork partial = {};
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("seed", self.seed, "of intervals");
    PartialWork::VisitFields(self.partial, visit);
  }
};

/// Which heads predictions come from. Of several texts, those that cannot be
/// compared are left out and counted; one that is alone is an error.
HEADWISE_API PatchResult PatchHeads(Transformer& model,
                                    std::span<const PatchText> cases,
                                    const PatchJob& job = {});

HEADWISE_API PatchResult PatchHeads(Transformer& model,
                                    std::span<const PatchCase> cases,
                                    const PatchJob& job = {});

HEADWISE_API std::string JsonText(const PatchResult& result);

}  // namespace headwise
