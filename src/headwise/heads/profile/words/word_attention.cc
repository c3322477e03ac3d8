// Word-level attention. Door: word_attention.h.
#include "headwise/heads/profile/words/word_attention.h"

#include <algorithm>

namespace headwise {

std::vector<int32_t> WordsOfTokens(const Encoding& encoding,
                                   std::span<const TextSpan> words) {
  std::vector<int32_t> word_of_token(encoding.size(), -1);
  for (size_t t = 0; t < encoding.size(); ++t) {
    if (encoding.added[t] != 0) continue;
    const TextSpan token = encoding.spans[t];
    const auto first = std::partition_point(
        words.begin(), words.end(),
        [&](const TextSpan& word) { return word.end <= token.begin; });
    uint32_t most = 0;
    for (auto word = first; word != words.end() && word->begin < token.end;
         ++word) {
      const uint32_t shared =
          std::min(word->end, token.end) - std::max(word->begin, token.begin);
      if (shared <= most) continue;
      most = shared;
      word_of_token[t] = static_cast<int32_t>(word - words.begin());
    }
  }
  return word_of_token;
}

std::vector<std::vector<int32_t>> TokensOfWords(
    std::span<const int32_t> word_of_token, size_t words) {
  std::vector<std::vector<int32_t>> tokens(words);
  for (size_t t = 0; t < word_of_token.size(); ++t) {
    if (word_of_token[t] < 0) continue;
    tokens[word_of_token[t]].push_back(static_cast<int32_t>(t));
  }
  return tokens;
}

std::vector<int32_t> MostAttendedWords(
    const AttentionMap& map,
    const std::vector<std::vector<int32_t>>& query_tokens,
    std::span<const int32_t> key_words, size_t words, FromWord from,
    bool exclude_self) {
  std::vector<int32_t> most(query_tokens.size(), -1);
  // Dividing by the number of pieces would not change the largest: sums do.
  std::vector<float> mass(words);
  for (size_t q = 0; q < query_tokens.size(); ++q) {
    std::fill(mass.begin(), mass.end(), 0.0f);
    const std::vector<int32_t>& pieces = query_tokens[q];
    const size_t used = from == FromWord::kMean
                            ? pieces.size()
                            : std::min<size_t>(1, pieces.size());
    for (size_t p = 0; p < used; ++p) {
      const float* row = map.data + pieces[p] * map.row_stride;
      for (size_t t = 0; t < key_words.size(); ++t) {
        if (key_words[t] >= 0) mass[key_words[t]] += row[t];
      }
    }
    if (exclude_self) mass[q] = 0;
    const auto largest = std::max_element(mass.begin(), mass.end());
    if (largest != mass.end() && *largest > 0) {
      most[q] = static_cast<int32_t>(largest - mass.begin());
    }
  }
  return most;
}

}  // namespace headwise
