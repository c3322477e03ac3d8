// Which loss a model is judged by, and that loss sequence by sequence. Logits
// of a whole text are never held: rows pass in blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/loss.h"
#include "headwise/model/model.h"

namespace headwise {

// One text as a model reads it.
struct TextExample {
  std::vector<int32_t> ids;     // encoder–decoders: the source
  std::vector<int32_t> target;  // encoder–decoders: what the decoder reads
  // One a token of ids, 1 where it is not of the text (<bos>, [CLS]): never
  // masked. Empty: none.
  std::vector<uint8_t> added;
};

LossKind LossOf(const Model& model);

// What logits are read in: f32 whatever the states are, but for a vocabulary
// with a bias of its own, which its layer keeps in the states' type.
DType LogitType(const Model& model);

struct ObjectiveOptions {
  // kMaskedToken: the token that hides others, and how many are hidden.
  int32_t mask_token = -1;
  double mask_share = 0.15;
  uint64_t seed = 0;
};

// Sequences end to end, with what is to be predicted after each row.
struct ExampleBatch {
  std::vector<int32_t> ids;
  SequenceBatch sequences;
  std::vector<int32_t> decoder_ids;  // encoder–decoders
  SequenceBatch decoder_sequences;
  std::vector<int32_t> targets;  // one a row that predicts; or kIgnoreTarget
  std::vector<double> weights;   // one a sequence: predictions in it, or 1
  // kEmbeddingCosine: f32 [B, d] on the host, the untouched embeddings.
  Tensor reference;
  std::vector<uint8_t> added;  // kEmbeddingCosine: one a token of ids

  int64_t size() const { return sequences.sequences(); }
  // Of the larger side.
  int64_t rows() const {
    return std::max(sequences.total(), decoder_sequences.total());
  }
  // The rows of the stack that predicts.
  const SequenceBatch& predicting() const {
    return decoder_ids.empty() ? sequences : decoder_sequences;
  }
};

// Batches of one objective as one, their sequences in order.
ExampleBatch Joined(std::span<const ExampleBatch* const> batches);

class Objective {
 public:
  // Throws Error(kInvalidArgument) for a masked-LM head without a mask token.
  explicit Objective(const Model& model, ObjectiveOptions options = {});

  LossKind kind() const { return kind_; }

  // `first` is the number of the first example in the corpus: masks depend on
  // it and not on how examples are put in batches. Throws
  // Error(kInvalidArgument) for an example of fewer than two tokens.
  ExampleBatch Prepare(std::span<const TextExample> examples,
                       int64_t first) const;

  // kEmbeddingCosine: takes the mean-pooled rows of x [rows, d] as what later
  // runs are compared with. Otherwise nothing.
  void SetReference(Context& context, ExampleBatch& batch,
                    ConstTensorView x) const;

  // Losses of `copies` runs over the batch, stacked: x [copies · rows, d] as
  // Model::Finish left it. Sums over each sequence, [copies, B]; divide by the
  // batch's weights.
  std::vector<double> Losses(Context& context, const ExampleBatch& batch,
                             ConstTensorView x, int64_t copies) const;

 private:
  void Mask(const TextExample& example, int64_t number,
            ExampleBatch& batch) const;
  void AddTargets(const TextExample& example, ExampleBatch& batch) const;
  // logits [rows, vocabulary or more] of states [rows, d]; what lies behind the
  // vocabulary is of no use.
  void Logits(Context& context, const ConstTensorView& states,
              const TensorView& logits) const;
  // The rows `at` of x, of which `targets` come next: a loss each.
  std::vector<float> RowLosses(Context& context, ConstTensorView x,
                               std::span<const int32_t> at,
                               std::span<const int32_t> targets) const;

  const Model& model_;
  ObjectiveOptions options_;
  LossKind kind_;
  // The vocabulary's matrix with rows of 0 behind it, once it was asked for.
  mutable std::shared_ptr<Tensor> padded_;
};

}  // namespace headwise
