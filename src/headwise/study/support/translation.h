// Small translators of the pairs that a study was given, one for each number of
// heads and each seed, and their BLEU on held-out pairs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/bleu.h"
#include "headwise/study/support/trained.h"

namespace headwise {

// The request's texts that are pairs: those called *.tsv; and the others.
std::vector<std::string> PairsOf(const StudyRequest& request);
std::vector<std::string> TextsOf(const StudyRequest& request);

struct TranslatorShape {
  int64_t width = 256;
  int64_t layers = 3;  // of encoder and decoder each
  std::span<const int64_t> heads = {};
};

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
