// From attention between tokens to attention between words: to a split word the
// sum over its pieces, from it their mean. Special tokens belong to no word.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// What stands for a word that attends.
enum class FromWord : uint8_t {
  kMean,        // the mean of its pieces
  kFirstPiece,  // its first piece
};

// The word of each token: the one that holds most of its bytes, the first of
// equals; −1 for tokens that the template added or that touch no word. `words`
// are in the order of the text.
std::vector<int32_t> WordsOfTokens(const Encoding& encoding,
                                   std::span<const TextSpan> words);

// The tokens of each word, ascending; empty for a word that no token stands
// for.
std::vector<std::vector<int32_t>> TokensOfWords(
    std::span<const int32_t> word_of_token, size_t words);

// One head's attention on one sequence: entry (i, j) of [queries, keys] is
// data[i · row_stride + j].
struct AttentionMap {
  const float* data = nullptr;
  int64_t row_stride = 0;
};

// The most attended key word of each query word, the first of equals, −1 where
// it attends to none. Where `exclude_self`, both sides are the same words and a
// word does not count for itself.
std::vector<int32_t> MostAttendedWords(
    const AttentionMap& map,
    const std::vector<std::vector<int32_t>>& query_tokens,
    std::span<const int32_t> key_words, size_t words, FromWord from,
    bool exclude_self);

}  // namespace headwise
