// Whole sequences through a model and back: through its one stack, or through
// the encoder and then the decoder, which attends to what the encoder made.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// Its views must outlive the pass.
struct PassInput {
  std::span<const int32_t> ids = {};  // of the stack, one a row of the batch
  ConstTensorView ids_there = {};     // as StackInput's
  const SequenceBatch* batch = nullptr;
  // Encoder–decoders: the decoder's side, likewise.
  std::span<const int32_t> decoder_ids = {};
  ConstTensorView decoder_ids_there = {};
  const SequenceBatch* decoder_batch = nullptr;
  HookList hooks = {};
  const AttentionSite* stop_after = nullptr;  // as StackInput's, of any stack
  // Training, as StackInput's.
  DropoutMask dropout = {};
  const GateTraining* gate_training = nullptr;
  bool keep = false;  // what Backward needs
  bool recompute = false;
  const PartDone* on_backward = nullptr;
};

class SequencePass {
 public:
  SequencePass(const Model& model, const PassInput& input);
  SequencePass(const SequencePass&) = delete;
  SequencePass& operator=(const SequencePass&) = delete;

  // Rows of the stack that predicts.
  int64_t rows() const { return last().batch->total(); }

  // x [rows, d]: the final states of the stack that predicts.
  void Forward(Context& context, TensorView x);

  // After a Forward that kept: dx [rows, d] by its result is overwritten,
  // gradients of trainable parameters are added to.
  void Backward(Context& context, TensorView dx);

 private:
  bool paired() const { return model_.decoder() != nullptr; }
  const StackInput& last() const { return paired() ? decoder_ : input_; }

  const Model& model_;
  StackInput input_, decoder_;
  StackSaved saved_, decoder_saved_;
  Temp memory_;  // [rows of the encoder, d]: its output
};

}  // namespace headwise
