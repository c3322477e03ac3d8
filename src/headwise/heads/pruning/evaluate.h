// The loss of a model on a text, with any heads closed or of a smaller model
// beside it, with intervals.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/heads/importance/corpus_runs.h"
#include "headwise/heads/importance/statistics.h"
#include "headwise/heads/pruning/agreement.h"
#include "headwise/model/head_ref.h"

namespace headwise {

struct Evaluation {
  LossKind loss_kind = LossKind::kNextToken;
  int64_t sequences = 0;
  int64_t tokens = 0;
  Interval loss;  // of the whole model, a prediction
  // With the heads closed; the same where none is. The change is taken
  // sequence by sequence, so that what makes one hard cancels out.
  Interval closed;
  Interval change;
};

// The mean output of every head over a text: what FoldMeans and
// JudgedText::Closed put in the place of heads.
HeadOutputs MeansOver(Context& context, const Model& model,
                      std::span<const TextExample> examples,
                      const CorpusOptions& options);

// Whether predictions whose likeliest token is the right one are counted.
enum class CountRight : bool { kNo, kYes };

// A text with the whole model's losses on it, against which any number of
// smaller models and sets of closed heads are held.
class JudgedText {
 public:
  // Runs the whole model over the text once. Borrows context and model. Throws
  // Error(kInvalidArgument) for no text. Ranks of options.pass share this run
  // and all that follow, until StopSharing.
  JudgedText(Context& context, const Model& whole,
             std::span<const TextExample> examples, CorpusOptions options,
             CountRight count = CountRight::kNo);

  void StopSharing() { options_.pass.group = nullptr; }

  // Of the whole model, a prediction.
  double loss() const;

  // Another model of the same vocabulary. Models that are judged by their own
  // output (LossKind::kEmbeddingCosine) are held against the whole one's.
  // agreement: of predictions with the whole model's, which is run again; may
  // be null, and stays empty for models that predict no tokens.
  Evaluation Of(const Model& smaller, AgreementSums* agreement = nullptr) const;
  Evaluation OfWhole() const { return Compared(base_); }

  // The whole model with heads closed: sums over each sequence, one row a
  // variant. means: what stands in for closed heads; null: 0. right: what
  // right() counts, the same way; may be null.
  LossTable Closed(std::span<const HeadSet> variants, const HeadOutputs* means,
                   LossTable* right = nullptr) const;
  // Of each sequence, by the whole model. Empty where nobody asked, and for
  // models that predict no tokens.
  const std::vector<double>& right() const { return right_; }
  // Resamples the sequences, by their predictions.
  PairedBootstrap bootstrap() const;
  Evaluation Compared(const std::vector<double>& losses) const;
  // A prediction's, of losses as Closed gives them.
  double Mean(const std::vector<double>& losses) const;

 private:
  struct Batch {
    ExampleBatch examples;
    size_t first = 0;  // number of its first sequence
  };

  void RunWhole(bool counts);
  // A table that batches fill; how is the caller's.
  TableWork TableByBatch(const char* stage, size_t rows) const;
  // Whether the model predicts tokens, and is not judged by its own output.
  bool predicts() const {
    return objective_.kind() != LossKind::kEmbeddingCosine;
  }
  // Of each of `copies` runs over the batch, stacked.
  std::vector<double> RightOf(const Batch& batch, ConstTensorView x,
                              int64_t copies) const;

  Context& context_;
  const Model& whole_;
  CorpusOptions options_;
  Objective objective_;
  std::vector<Batch> batches_;
  int64_t tokens_ = 0;
  std::vector<double> weights_, base_, right_;
};

}  // namespace headwise
