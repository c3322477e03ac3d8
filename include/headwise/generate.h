// Text that continues a prompt, token by token, or a translation by beam.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/cache.h"
#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/progress.h"

namespace headwise {

class Transformer;  // model.h

struct GenerateJob {
  int64_t max_tokens = 100;
  int64_t context = 0;    ///< most positions; 0: as many as the model knows
  bool truncate = false;  ///< keep the last tokens of a prompt that is too long
  int64_t beam = 1;       ///< encoder–decoders; 1: the sampler chooses
  double length_penalty = 1;  ///< beams are compared by log p / length^penalty
  double temperature = 0;     ///< 0: the likeliest token; higher: more varied
  int64_t top_k = 0;          ///< sample among the k likeliest; 0: all
  double top_p = 1;   ///< sample among the likeliest that hold this much
  uint64_t seed = 0;  ///< same seed, same text
  /// Called with each new token as it comes (not with beams).
  std::function<void(int32_t)> on_token = {};
  /// Which heads keep what of the text; null: all keep everything.
  const KvPolicy* policy = nullptr;
  /// Called at the end of a text with what its memory took.
  std::function<void(const CacheBytes&)> on_cache = {};
  OnProgress on_progress = {};  ///< counts the texts of GenerateEach
  std::stop_token stop = {};    ///< ends the text; what there is, is returned

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("max_tokens", self.max_tokens, "most new tokens", AtLeast(0));
    visit("context", self.context,
          "most positions; 0: as many as the model knows", AtLeast(0));
    visit("truncate", self.truncate,
          "keep the last tokens of a prompt that is too long");
    visit("beam", self.beam, "beams of an encoder–decoder", AtLeast(1));
    visit("length_penalty", self.length_penalty,
          "beams are compared by log p / length^penalty");
    visit("temperature", self.temperature,
          "0: the likeliest token; higher: more varied", AtLeast(0));
    visit("top_k", self.top_k, "sample among the k likeliest; 0: all",
          AtLeast(0));
    visit("top_p", self.top_p,
          "sample among the likeliest that hold this much probability",
          FieldRange{.least = 0, .most = 1, .above = true});
    visit("seed", self.seed, "same seed, same text");
  }
};

struct Generated {
  std::vector<int32_t> prompt = {};  ///< as it was fed
  std::vector<int32_t> ids = {};  ///< the continuation, without the end token
  std::string text = {};          ///< text of the ids; "" without a tokenizer
};

/// The continuation of a prompt (decoder-only models), or its translation
/// (encoder– decoders), under the model's edits and hooks. Throws
/// Error(kInvalidArgument) for a prompt longer than the context, and
/// kUnsupported for a model that predicts no tokens.
HEADWISE_API Generated Generate(Transformer& model, std::string_view prompt,
                                const GenerateJob& job = {});
HEADWISE_API Generated Generate(Transformer& model,
                                std::span<const int32_t> prompt,
                                const GenerateJob& job = {});

/// Each prompt by itself, as many at a time as the model's context has threads;
/// one after the other under hooks. on_token is not called, the other callbacks
/// by one thread at a time. An empty prompt that nothing stands before gives an
/// empty text. Stopped, it returns what is whole, the rest empty.
HEADWISE_API std::vector<Generated> GenerateEach(
    Transformer& model, std::span<const std::string> prompts,
    const GenerateJob& job = {});

}  // namespace headwise
