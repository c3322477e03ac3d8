// Small translators of the pairs that a study was given, one for each number of
// heads and each seed, and their BLEU on held-out pairs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/bleu.h"
#include "headwise/study/support/trained.h"
#include "headwise/tokenizer/text_source.h"
#include "headwise/tokenizer/tokenizer.h"
#include "headwise/train/config.h"

namespace headwise {

// The request's texts that are pairs: those called *.tsv; and the others.
std::vector<std::string> PairsOf(const StudyRequest& request);
std::vector<std::string> TextsOf(const StudyRequest& request);

struct TranslatorShape {
  int64_t width = 256;
  int64_t layers = 3;  // of encoder and decoder each
  std::span<const int64_t> heads = {};
};

inline constexpr int32_t kTranslatorEos = 1, kTranslatorPad = 2;
inline constexpr int64_t kLongestSide = 127;  // tokens, without the last

// Learned from texts, with the translators' special tokens.
std::unique_ptr<Tokenizer> TranslatorTokenizer(TextSource& texts);
// config.json in Marian's layout.
Json TranslatorConfig(const TranslatorShape& shape, int64_t heads,
                      int64_t vocabulary);
// The recipe of examples/train/verses.json, shorter.
TrainConfig TranslatorTraining(const TranslatorShape& shape, uint64_t seed,
                               int64_t steps, bool full);

struct TranslationScore {
  int64_t heads = 0;
  int64_t parameters = 0;
  std::vector<BleuEstimate> bleu;  // one a seed
};

// The same data in the same order for every number of heads, seed by seed.
// Lines "source<tab>target"; every 31st is held out, at most 200 (in full
// 1000) of those are translated, on the CPU. Throws Error for files that are no
// pairs.
std::vector<TranslationScore> TrainTranslators(
    Context& context, const StudyRequest& request, const TranslatorShape& shape,
    int64_t steps, const std::vector<uint64_t>& seeds);

}  // namespace headwise
