// A model with memory: text goes in piece by piece, logits of what follows
// come out. One Session is one conversation with one or more sequences in
// step (a beam).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/runtime/kv_cache.h"

namespace headwise {

struct SessionOptions {
  int64_t sequences = 1;
  // Most positions a sequence may reach. 0: the model's context. Beyond the
  // model's context only where positions are rotary, and at your own risk.
  int64_t capacity = 0;
  RunHooks* hooks = nullptr;
};

class Session {
 public:
  Session(Context& context, const Model& model, SessionOptions options = {});

  int64_t position() const { return cache_.length(0); }
  int64_t capacity() const { return cache_.capacity(); }
  int64_t sequences() const { return options_.sequences; }

  // Encoder–decoders: what is to be translated, the same for all sequences.
  void Encode(std::span<const int32_t> source);

  // Feeds rows ids (the same number for every sequence: [sequences, rows]) and
  // returns the logits after the last one, [sequences, vocabulary]. Long
  // inputs run in chunks. Throws Error(kInvalidArgument) with both numbers
  // when the capacity is passed.
  const Tensor& Feed(std::span<const int32_t> ids);

  // Forgets the text: the next Feed starts anew.
  void Clear();

  // Sequence i continues the old sequence order[i].
  void Reorder(std::span<const int32_t> order);

 private:
  void FeedChunk(std::span<const int32_t> ids, int64_t rows);

  Context& context_;
  const Model& model_;
  SessionOptions options_;
  KvCache cache_;
  KvCache cross_cache_;
  Tensor last_;    // [sequences, d]: the final states after the last row
  Tensor logits_;  // [sequences, vocabulary]
};

// Final hidden states x [Σ lengths, d] of whole sequences at once, without a
// cache: what analysis runs. ids are the sequences end to end.
struct ForwardInput {
  std::span<const int32_t> ids = {};
  std::span<const int64_t> lengths = {};
  // Encoder–decoders: the target side, likewise; x is then the decoder's.
  std::span<const int32_t> decoder_ids = {};
  std::span<const int64_t> decoder_lengths = {};
  RunHooks* hooks = nullptr;
};
Tensor Forward(Context& context, const Model& model, const ForwardInput& input);
// The same run for its attention's hooks alone, ending with the last attention:
// no activation after it is given.
void ForwardToLastAttention(Context& context, const Model& model,
                            const ForwardInput& input);

}  // namespace headwise
