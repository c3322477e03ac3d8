// headwise evaluate --kv-policy: a text read through a cache that heads keep
// parts of, beside the whole cache.
#pragma once

#include <cstdint>

#include "cache_flags.h"
#include "headwise/heads/importance/statistics.h"
#include "prune_material.h"

namespace headwise {

struct CacheEvaluation {
  int64_t sequences = 0, tokens = 0;
  Interval loss, cut, change;               // a prediction's
  Interval right, cut_right, change_right;  // shares of the predictions
  CacheBytes bytes;  // at the end of the longest sequence
};

// Every sequence through a session of its own, twice. Throws
// Error(kUnsupported) for models that are not causal.
CacheEvaluation EvaluateCache(Context& context, const PruneMaterial& material,
                              const KvPolicy& policy,
                              const CorpusOptions& corpus);

void PrintEvaluation(const CacheEvaluation& result, const CacheChoice& choice,
                     const RunFlags& run, const std::string& model_hash);

}  // namespace headwise
