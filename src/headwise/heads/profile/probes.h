// Inputs made for a purpose, the same for every corpus: random tokens repeated
// (induction, duplicates) and a needle in a haystack (retrieval). What they
// give belongs to the model alone.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/notes.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/model/model.h"
#include "headwise/progress.h"
#include "headwise/runtime/windows.h"

namespace headwise {

// Random tokens repeated.
struct RepeatShape {
  int64_t tokens = 25;  // distinct
  int64_t copies = 4;
};
inline constexpr RepeatShape kRepeats = {25, 4};
// The form in which older figures are given; scores are lower, since there is
// one earlier copy to read.
inline constexpr RepeatShape kRepeatsOnce = {50, 2};

// `count` sequences of random tokens repeated, framed as the model's texts.
// Shorter periods where the vocabulary or the context has too little room;
// none where two copies of four tokens do not fit.
std::vector<TokenWindow> RepeatWindows(const TokenTable& table,
                                       const TokenFrame& frame, int64_t context,
                                       RepeatShape shape, int64_t count);

// Metrics "repeats.*" of every head of the only stack, on kRepeats, and
// "repeats-50x2.induction" on kRepeatsOnce. Throws Error(kCancelled) when
// stopped.
void AddRepeats(Context& context, const Model& model, const TokenTable& table,
                const TokenFrame& frame, Profile& profile,
                const OnProgress& progress = {},
                const std::stop_token& stop = {});

// "retrieval": a needle of ten tokens in a haystack of random ones, repeated
// at the end. The share of its tokens that are about to be produced for which
// the head's largest key is that token inside the needle. Causal models only.
void AddRetrieval(Context& context, const Model& model, const TokenTable& table,
                  const TokenFrame& frame, Profile& profile);

}  // namespace headwise
