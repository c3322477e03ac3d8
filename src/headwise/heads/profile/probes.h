// Inputs made for a purpose, the same for every corpus: random tokens repeated
// (induction, duplicates) and a needle in a haystack (retrieval). What they
// give belongs to the model alone.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/notes.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/model/model.h"
#include "headwise/runtime/windows.h"

namespace headwise {

// 25 distinct tokens four times over.
inline constexpr int64_t kRepeatTokens = 25;
inline constexpr int64_t kRepeatCopies = 4;

// `count` sequences of random tokens repeated, framed as the model's texts.
// Shorter periods where the vocabulary or the context has too little room;
// none where two copies of four tokens do not fit.
std::vector<TokenWindow> RepeatWindows(const TokenTable& table,
                                       const TokenFrame& frame, int64_t context,
                                       int64_t count);

// Metrics "repeats.*" of every head of the encoder or the only stack.
void AddRepeats(Context& context, const Model& model, const TokenTable& table,
                const TokenFrame& frame, Profile& profile);

// "retrieval": a needle of ten tokens in a haystack of random ones, repeated
// at the end. The share of its tokens that are about to be produced for which
// the head's largest key is that token inside the needle. Causal models only.
void AddRetrieval(Context& context, const Model& model, const TokenTable& table,
                  const TokenFrame& frame, Profile& profile);

}  // namespace headwise
