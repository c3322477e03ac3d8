// Text that grows: a prompt continued token by token, a translation by beam, or
// a conversation that one feeds piece by piece.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/cache.h"
#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/model.h"
#include "headwise/progress.h"
#include "headwise/tensor.h"

namespace headwise {

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
  OnProgress on_progress = {};  ///< of GenerateEach: texts
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
  std::vector<int32_t> ids = {};     ///< what follows, without the end token
  std::string text = {};             ///< of ids; "" without a tokenizer
};

/// What follows a prompt (decoder-only models), or its translation (encoder–
/// decoders), under the model's edits and hooks. Throws Error(kInvalidArgument)
/// for a prompt longer than the context, and kUnsupported for a model that
/// predicts no tokens.
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

/// A model with memory: ids go in piece by piece, logits of what follows come
/// out, for one or several sequences in step. Borrows the model, which must
/// outlive it, and its thread rule. Edits and hooks count as they are at each
/// Feed.
class HEADWISE_API Conversation {
 public:
  /// context: most positions a sequence may reach; 0: the model's.
  explicit Conversation(Transformer& model, int64_t sequences = 1,
                        int64_t context = 0);
  ~Conversation();
  Conversation(Conversation&&) noexcept;
  Conversation& operator=(Conversation&&) noexcept;

  int64_t position() const;
  int64_t capacity() const;
  int64_t sequences() const;

  /// Encoder–decoders: what is to be translated, the same for all sequences.
  void Encode(std::span<const int32_t> source);
  /// ids [sequences, rows]; returns the logits after the last row, f32
  /// [sequences, vocabulary] on the host. Throws Error(kInvalidArgument) with
  /// both numbers when the capacity is passed.
  Tensor Feed(std::span<const int32_t> ids);
  /// Forgets the text.
  void Clear();
  /// Sequence i continues the old sequence order[i].
  void Reorder(std::span<const int32_t> order);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headwise
