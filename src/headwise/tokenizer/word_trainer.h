// A vocabulary of whole words, for encoders that guess masked ones.
#pragma once

#include <string>

#include "headwise/tokenizer/text_source.h"
#include "headwise/vocabulary.h"

namespace headwise {

// A tokenizer.json that knows the most frequent words of the texts, cut at
// spaces and around punctuation as BERT's are, each as one token, and reads
// others as [UNK]. Ids 0 … 4 are [PAD], [UNK], [CLS], [SEP] and [MASK]; a text
// stands between [CLS] and [SEP]. The result depends on the texts and the
// options only: of words seen equally often the first by its bytes is taken.
// Throws Error(kInvalidArgument) for a size that leaves no room for a word or
// for those that are included, special tokens given twice, and what TextSource
// throws.
std::string TrainWords(TextSource& texts, const VocabularyJob& options);

}  // namespace headwise
