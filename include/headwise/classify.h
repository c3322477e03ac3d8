// Classes of texts or of tokens, by the head that a checkpoint has for them:
// …ForSequenceClassification, …ForTokenClassification, ElectraForPreTraining.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/tensor.h"

namespace headwise {

class Transformer;  // model.h

struct ClassifyJob {
  /// Tokens of a text, those around it included; what is beyond is cut off. 0:
  /// what the model knows.
  int64_t context = 0;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("context", self.context,
          "tokens of a text, beyond which it is cut; 0: what the model knows",
          AtLeast(0));
  }
};

struct TextClasses {
  std::vector<std::string> labels = {};  ///< by class
  bool of_tokens = false;                ///< a row a token, not a text
  /// f32 [texts, classes], or [tokens, classes] of all texts one after the
  /// other, on the host.
  Tensor logits = {};
  std::vector<std::vector<int32_t>> ids = {};  ///< of each text, as it was read
  int64_t cut = 0;                             ///< texts that were too long
};

/// Throws Error(kUnsupported) naming the class for a model without such a head.
HEADWISE_API TextClasses ClassifyTexts(Transformer& model,
                                       std::span<const std::string> texts,
                                       const ClassifyJob& job = {});

}  // namespace headwise
