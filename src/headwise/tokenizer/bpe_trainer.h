// Learning a byte-level BPE vocabulary from text.
#pragma once

#include <string>

#include "headwise/tokenizer/text_source.h"
#include "headwise/vocabulary.h"

namespace headwise {

// A tokenizer.json for the texts, cut into words by GPT-2's rule. The result
// depends on the texts and the options only: of pairs seen equally often the
// one with the lower ids is joined first. Throws Error(kInvalidArgument) for a
// size that leaves no room for the bytes or tokens given twice, and what
// TextSource throws. Of a text without spaces and line ends each 2 MiB are cut
// off, wherever a word ends.
std::string TrainByteLevelBpe(TextSource& texts, const VocabularyJob& options);

}  // namespace headwise
