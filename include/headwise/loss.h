// The loss of a model on a text, with an interval.
#pragma once

#include <cstdint>
#include <stop_token>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/progress.h"

namespace headwise {

/// A value with its 95 % interval; −∞ and ∞ where there is no telling.
struct Interval {
  double value = 0;
  double low = 0;
  double high = 0;
};

enum class LossKind : uint8_t {
  kNextToken,        ///< causal models
  kMaskedToken,      ///< encoders with a masked-LM head
  kTargetTokens,     ///< encoder–decoders, teacher forced
  kEmbeddingCosine,  ///< encoders without a head
  kContrastive,      ///< the same, for gradients: texts against each other
};

/// "next-token", …: the name that is printed beside every figure.
HEADWISE_API const char* Name(LossKind kind);

/// The loss in one sentence.
HEADWISE_API const char* Describe(LossKind kind);

/// A model's loss on a text.
struct TextLoss {
  LossKind kind = LossKind::kNextToken;
  int64_t sequences = 0;
  int64_t tokens = 0;
  Interval loss = {};  ///< nats a prediction, with its 95 % interval
};

struct LossJob {
  uint64_t seed = 0;  ///< random numbers of masks and intervals
  /// Transformer::Loss: not under edits and hooks.
  PartialWork partial = {};
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("seed", self.seed, "of masks and intervals");
    PartialWork::VisitFields(self.partial, visit);
  }
};

}  // namespace headwise
