// The list of implementations of embeddings, best first.
#pragma once

#include "headwise/ops/embedding/embedding.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

struct EmbeddingCall {
  const EmbeddingProblem& problem;
  const EmbeddingArgs& args;
  // Null: the forward. In the backward args has the ids and nothing else.
  const EmbeddingGrads* grads = nullptr;
};

ImplementationList<EmbeddingCall> EmbeddingImplementations();

// The entries, one per file that makes them.
extern const Implementation<EmbeddingCall> kEmbeddingReference;
extern const Implementation<EmbeddingCall> kEmbeddingCpuF32;
extern const Implementation<EmbeddingCall> kEmbeddingCuda;

}  // namespace headwise
