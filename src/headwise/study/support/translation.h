// Small translators of the pairs that a study was given, one for each number of
// heads, and their BLEU on held-out pairs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/study/support/trained.h"
#include "headwise/train/bleu.h"

namespace headwise {

// Whether the request's texts are pairs: all are called *.tsv.
bool GivesPairs(const StudyRequest& request);

struct TranslatorShape {
  int64_t width = 128;
  int64_t layers = 2;  // of encoder and decoder each
  std::span<const int64_t> heads = {};
};

struct TranslationScore {
  int64_t heads = 0;
  int64_t parameters = 0;
  BleuEstimate bleu;
};

// Lines "source<tab>target"; every 31st is held out, at most 200 (in full
// 1000) of those are translated. Throws Error for files that are no pairs.
std::vector<TranslationScore> TrainTranslators(Context& context,
                                               const StudyRequest& request,
                                               const TranslatorShape& shape);

}  // namespace headwise
