// One vector a text: the last states of a model, pooled as
// sentence-transformers does it.
//
//   headwise::Transformer model("models/minilm-l6");
//   const auto out = headwise::EmbedTexts(model, {{"A cat.", "A dog."}});
//   // out.vectors: [2, width]
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/progress.h"
#include "headwise/tensor.h"

namespace headwise {

class Transformer;  // model.h

/// What is made of the states of a text's tokens, in the order in which
/// sentence-transformers puts several of them side by side.
enum class Pooling : uint8_t {
  kAuto,          ///< as modules.json beside the model says, or the mean
  kCls,           ///< the first token's
  kMax,           ///< the largest of each channel
  kMean,          ///< their mean
  kMeanSqrt,      ///< their sum over the root of their number
  kWeightedMean,  ///< their mean weighted by position, from 1
  kLast,          ///< the last token's
};
constexpr auto FieldWords(Pooling) {
  return std::array{"auto",      "cls",           "max", "mean",
                    "mean-sqrt", "weighted-mean", "last"};
}
/// "mean"
HEADWISE_API const char* Name(Pooling pooling);

/// Whether vectors are made as long as 1.
enum class Normalizing : uint8_t {
  kAuto,  ///< as modules.json says, or they are left as they are
  kYes,
  kNo,
};
constexpr auto FieldWords(Normalizing) {
  return std::array{"auto", "yes", "no"};
}

struct EmbedJob {
  Pooling pooling = Pooling::kAuto;
  Normalizing normalize = Normalizing::kAuto;
  /// Put before each text; nothing: the default prompt of
  /// config_sentence_transformers.json, or none.
  std::optional<std::string> prompt = {};
  /// Tokens of a text, those around it included; what is beyond is cut off. 0:
  /// as sentence_bert_config.json says, or what the model knows.
  int64_t context = 0;
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit(
        "pooling", self.pooling,
        "what is made of the states of a text's tokens; auto: as modules.json "
        "beside the model says, or the mean");
    visit("normalize", self.normalize,
          "make vectors as long as 1; auto: as modules.json says");
    visit("prompt", self.prompt,
          "put before each text; without it the model's default prompt");
    visit("context", self.context,
          "tokens of a text, beyond which it is cut; 0: as the model's files "
          "say",
          AtLeast(0));
  }
};

struct EmbeddedTexts {
  Tensor vectors = {};               ///< f32 [texts, width], on the host
  std::string how = {};              ///< "mean, normalized (modules.json)"
  std::string prompt = {};           ///< before each text
  std::vector<int64_t> tokens = {};  ///< of each text, as it was read
  int64_t cut = 0;                   ///< texts that were too long
};

/// Throws Error: kUnsupported, naming it, for a module that is not computed;
/// kNotFound without a tokenizer.
HEADWISE_API EmbeddedTexts EmbedTexts(Transformer& model,
                                      std::span<const std::string> texts,
                                      const EmbedJob& job = {});

}  // namespace headwise
