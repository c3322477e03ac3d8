// A model with memory: text goes in piece by piece, logits of what follows
// come out. One Session is one conversation with one or more sequences in
// step (a beam).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "headwise/backend/device_backend.h"
#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/runtime/kv_cache.h"
#include "headwise/runtime/prepared_input.h"

namespace headwise {

struct SessionOptions {
  int64_t sequences = 1;
  // Most positions a sequence may reach. 0: the model's context. Beyond the
  // model's context only where positions are rotary, and at your own risk.
  int64_t capacity = 0;
  HookList hooks = {};
  // Which heads keep what of the text; null: all keep everything. Read by the
  // constructor. On the CPU.
  const KvPolicy* policy = nullptr;
  // On a GPU, whether steps of one token are recorded once and run again. Off:
  // the same numbers, more slowly.
  bool record = true;
};

class Session {
 public:
  Session(Context& context, const Model& model, SessionOptions options = {});

  int64_t position() const { return cache_.length(0); }
  int64_t capacity() const { return cache_.capacity(); }
  int64_t sequences() const { return options_.sequences; }
  // For the text; what an encoder–decoder keeps of the source is not counted.
  CacheBytes cache_bytes() const { return cache_.bytes(); }

  // Encoder–decoders: what is to be translated, the same for all sequences.
  void Encode(std::span<const int32_t> source);

  // Feeds rows ids (the same number for every sequence: [sequences, rows]) and
  // returns the logits after the last one, [sequences, vocabulary]. Long
  // inputs run in chunks. Throws Error(kInvalidArgument) with both numbers
  // when the capacity is passed.
  const Tensor& Feed(std::span<const int32_t> ids);

  // The same; returns the final states after all rows, [sequences, rows, d].
  Tensor FeedStates(std::span<const int32_t> ids);

  // Forgets the text: the next Feed starts anew.
  void Clear();

  // Sequence i continues the old sequence order[i].
  void Reorder(std::span<const int32_t> order);

 private:
  int64_t RowsOf(std::span<const int32_t> ids) const;
  void FeedAll(std::span<const int32_t> ids, int64_t rows, TensorView states);
  void FeedChunk(std::span<const int32_t> ids, int64_t rows,
                 int64_t call_length, TensorView states);
  bool StepsOnDevice() const;
  void Step(std::span<const int32_t> ids);
  void RunStep(std::span<const int32_t> ids);

  Context& context_;
  const Model& model_;
  SessionOptions options_;
  int64_t chunk_;  // rows of a prompt that pass through the layers together
  KvCache cache_;
  KvCache cross_cache_;
  Tensor last_;    // [sequences, d]: the final states after the last row
  Tensor logits_;  // [sequences, vocabulary]

  // Steps on a device, see Step.
  Tensor numbers_;  // i32 [kNumbers, sequences]
  std::unique_ptr<RecordedWork> recorded_;
  std::vector<int64_t> rope_lengths_;  // of the last step, by RopeLength
  int64_t run_reserved_ = 0;  // of the cache when a step last ran by itself
  int64_t recorded_reserved_ = 0;  // and when one was recorded
  bool records_ = true;            // false: a step could not be
};

// Final hidden states x [Σ lengths, d] of whole sequences at once, without a
// cache: what analysis runs. ids are the sequences end to end.
struct ForwardInput {
  std::span<const int32_t> ids = {};
  std::span<const int64_t> lengths = {};
  // Encoder–decoders: the target side, likewise; x is then the decoder's.
  std::span<const int32_t> decoder_ids = {};
  std::span<const int64_t> decoder_lengths = {};
  HookList hooks = {};
  // Site of a layer of the model: the run ends after its attention, and x is of
  // no use; null: it does not.
  const AttentionSite* stop_after = nullptr;
};
Tensor Forward(Context& context, const Model& model, const ForwardInput& input);
// The same run for its attention's hooks alone: it stops after the last one.
void ForwardToLastAttention(Context& context, const Model& model,
                            const ForwardInput& input);
// The same of what was prepared; target: empty but for encoder–decoders. On a
// device it may still be on when this returns.
void ForwardToLastAttention(Context& context, const Model& model,
                            const PreparedInput& source,
                            const PreparedInput& target, const HookList& hooks);

}  // namespace headwise
