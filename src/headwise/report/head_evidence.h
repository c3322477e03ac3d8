// What a report shows of heads at work: short texts with every head's whole
// attention, so that a reader can see it look; the tokens that each head reads
// most; and what it writes of a token that it reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/model.h"
#include "headwise/runtime/windows.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// Attention of the heads of one kind on one short text.
struct AttentionSample {
  std::string title;
  AttentionKind kind = AttentionKind::kSelf;
  std::vector<int32_t> queries;
  std::vector<int32_t> keys;  // equal to queries but for cross-attention
  // [heads of the model][queries · keys], in AllHeads' order; empty for heads
  // of other kinds.
  std::vector<std::vector<float>> weights;
};

struct HeadSamples {
  std::vector<AttentionSample> samples;
  // Per head: tokens and their shares of its attention, largest first, over
  // `windows` (each cut to kSampleTokens). The first token and those that frame
  // a window are left out: what rests there is a metric of its own, over the
  // whole text.
  std::vector<std::vector<std::pair<int32_t, double>>> top_keys;
  int64_t windows = 0;
};

inline constexpr int64_t kSampleTokens = 128;  // of a window, for top keys

// Runs the model on a short beginning of the middle window, on words of the
// text said twice (causal models) and on the windows, densely. `windows` must
// not be empty.
HeadSamples SampleHeads(Context& context, const Model& model,
                        const Tokenizer& tokenizer,
                        std::span<const TokenWindow> windows);

// The most frequent words among the windows' tokens, most frequent first.
std::vector<int32_t> FrequentWords(const Tokenizer& tokenizer,
                                   std::span<const TokenWindow> windows,
                                   size_t most);

struct WrittenToken {
  int32_t id = 0;
  double logit = 0;
};

// Of one head and one token: what it favours most, strongest first.
struct TokenWrites {
  int32_t read = 0;
  std::vector<WrittenToken> top;
};

struct HeadContents {
  std::string readout;  // in words: how vectors became tokens
  // [heads in AllHeads' order][tokens]
  std::vector<std::vector<TokenWrites>> heads;
};

// W_V W_O of each token, read out as tokens; nothing is run but these products.
// A head reads the token's own embedding, normed as its layer norms its input,
// and what it writes goes through the final norm and the vocabulary; logits are
// those beyond writing nothing. A model without a vocabulary head is read out
// by its input embeddings.
HeadContents DescribeContents(Context& context, const Model& model,
                              std::span<const int32_t> tokens, int64_t top);

}  // namespace headwise
