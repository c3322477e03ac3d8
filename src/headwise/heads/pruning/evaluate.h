// The loss of a model on a text with any heads closed, with its interval.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/heads/importance/corpus_runs.h"
#include "headwise/heads/importance/statistics.h"
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

// What stands in for closed heads: Criterion::kAblationZero or kAblationMean.
Evaluation Evaluate(Context& context, const Model& model,
                    std::span<const TextExample> examples,
                    const HeadSet& closed, Criterion ablation,
                    const CorpusOptions& options);

// The same for a model that stands for another, as one without some of its
// heads does: loss is the first one's, closed the second one's. Throws
// Error(kUnsupported) for models that are judged by their own output
// (LossKind::kEmbeddingCosine).
Evaluation EvaluateBoth(Context& context, const Model& whole,
                        const Model& smaller,
                        std::span<const TextExample> examples,
                        const CorpusOptions& options);

}  // namespace headwise
