// Runs short sequences and shows every head's attention on each of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/words/word_attention.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/model.h"
#include "headwise/nn/hooks.h"

namespace headwise {

// Longer sequences are not shown densely: their maps would not fit.
inline constexpr int64_t kLongestSentence = 512;
// Tokens that pass through the model together.
inline constexpr int64_t kTokensPerRun = 1024;

// Token sequences end to end.
struct TokenBatch {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;

  void Add(std::span<const int32_t> sequence);
  void Clear();
  bool empty() const { return lengths.empty(); }
  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
};

// Called for each layer, sequence and head in this order.
using SeeMap = std::function<void(const HeadRef& head, size_t sequence,
                                  const AttentionMap& map)>;

// Runs the encoder, or the only stack, with hooks.
void RunStack(Context& context, const Model& model, const TokenBatch& batch,
              RunHooks& hooks);

// Self-attention of an encoder, or of a decoder-only model; no sequence is
// longer than kLongestSentence.
void RunSelfMaps(Context& context, const Model& model, const TokenBatch& batch,
                 const SeeMap& see);

// Cross-attention of an encoder–decoder: maps [target tokens, source tokens].
void RunCrossMaps(Context& context, const Model& model,
                  const TokenBatch& source, const TokenBatch& target,
                  const SeeMap& see);

}  // namespace headwise
