// What heads write of a token they read: W_V W_O of its embedding, read out as
// tokens. Nothing is run but these products.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/model.h"

namespace headwise {

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

// A head reads the token's own embedding, normed as its layer norms its input,
// and what it writes goes through the final norm and the vocabulary; logits are
// those beyond writing nothing. A model without a vocabulary head is read out
// by its input embeddings.
HeadContents DescribeContents(Context& context, const Model& model,
                              std::span<const int32_t> tokens, int64_t top);

}  // namespace headwise
