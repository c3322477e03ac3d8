// A conversation that grows piece by piece.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "headwise/export.h"
#include "headwise/tensor.h"

namespace headwise {

class Transformer;  // model.h

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
