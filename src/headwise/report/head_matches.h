// What a head's queries look for, by its weights: W_Q·W_Kᵀ read in tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/report/head_evidence.h"

namespace headwise {

// Of each head (in AllHeads' order) and each query: the keys that it scores
// highest, strongest first, by scaled scores above the mean of all keys. A
// query and a key are tokens' own embeddings, normed as the layer norms its
// input, at equal positions and without biases; nothing is run but these
// products. Self-attention of models without a decoder of their own.
std::vector<std::vector<TokenWrites>> DescribeMatches(
    Context& context, const Model& model, std::span<const int32_t> queries,
    std::span<const int32_t> keys, int64_t top);

}  // namespace headwise
