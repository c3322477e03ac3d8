// Second passes of both CUDA paths. Shapes: include/headwise/observation.h.
#pragma once

#include <span>

#include "headwise/observation.h"

namespace headwise::attention_cuda {

void DenseRows(Context& context, const AttentionProblem& problem,
               const AttentionArgs& args, std::span<const RowRef> rows,
               TensorView probabilities);
void LargestKeys(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args, std::span<const RowRef> rows,
                 TensorView keys, TensorView probabilities);
void PairMass(Context& context, const AttentionProblem& problem,
              const AttentionArgs& args, const PairList& pairs,
              ConstTensorView argmax, TensorView mass, TensorView is_argmax);
void ReceivedMass(Context& context, const AttentionProblem& problem,
                  const AttentionArgs& args, ConstTensorView query_weights,
                  TensorView received);
void WindowPicture(Context& context, const AttentionProblem& problem,
                   const AttentionArgs& args, const WindowRequest& window,
                   TensorView maximum, TensorView mean);
void Gram(Context& context, std::span<const HeadSource> sources,
          ConstTensorView query_weights, TensorView gram);

}  // namespace headwise::attention_cuda
