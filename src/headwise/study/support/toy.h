// One attention module alone, trained on what a function makes: the smallest
// thing that learns. Squared error of the first columns of its output.
//
//   MultiHeadAttention module({.d_model = 16, .heads = 2}, seed);
//   TrainToy(context, module, MakeTask, {.steps = 1000}, clock);
//   std::vector<double> r2 = ExplainedShares(context, module, MakeTask(rng));
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/context.h"
#include "headwise/multi_head_attention.h"
#include "headwise/study/support/trained.h"

namespace headwise {

struct ToyBatch {
  Tensor x;       // [B, M, d]
  Tensor source;  // [B, N, s]; empty: x
  Tensor target;  // [B, M, T]: of the first T columns of the output

  MultiHeadAttentionInput Input() const;
};
using ToyTask = std::function<ToyBatch(Rng&)>;

struct ToyTraining {
  int64_t steps = 1000;
  double rate = 0.01;  // falls to a tenth by a cosine
  uint64_t seed = 1;   // of the data
  // Weights that are to stay as they are: called with the gradients of every
  // step, to set theirs to 0.
  std::function<void(MultiHeadAttentionParameters&)> freeze;
  std::function<void(int64_t step, double loss)> on_step;
};

// AdamW without decay on fresh batches. Returns the mean squared error of the
// last tenth of the steps.
double TrainToy(Context& context, MultiHeadAttention& module,
                const ToyTask& task, const ToyTraining& how, StudyClock& clock);

// The module's output for the batch, its first T columns: [B, M, T].
Tensor ToyOutput(Context& context, const MultiHeadAttention& module,
                 const ToyBatch& batch);

// R² of every column of the target: 1 − Σ (y − t)² / Σ (t − mean t)².
std::vector<double> ExplainedShares(Context& context,
                                    const MultiHeadAttention& module,
                                    const ToyBatch& batch);

// The mean squared error over the target.
double ToyError(Context& context, const MultiHeadAttention& module,
                const ToyBatch& batch);

}  // namespace headwise
