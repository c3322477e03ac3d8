// Reads treebanks in CoNLL-U: sentences, their words, and which word governs
// which.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

struct TreebankWord {
  std::string form;
  // Where it stands in the sentence's text. Words of a multi-word token whose
  // forms spell it ("do" + "n't") have their own bytes; otherwise ("du" = "de"
  // + "le") each has the token's.
  TextSpan bytes;
  int32_t governor = -1;  // index of the word above it; −1: the root
  std::string relation;   // "nsubj", "nmod:poss"
};

struct TreebankSentence {
  std::string id;    // "# sent_id", or ""
  std::string text;  // "# text", or the words with spaces where they belong
  std::vector<TreebankWord> words;
};

// `where` is the file's name, for messages. Throws Error(kCorrupt) with the
// number of the sentence (from 1) and the line for a row that is no CoNLL-U, a
// governor that does not exist, and words that are not those of the text line.
std::vector<TreebankSentence> ParseTreebank(std::string_view conllu,
                                            const std::string& where);

// One file, or every *.conllu of a folder in the order of names. Throws
// Error(kNotFound), Error(kIo), and as above.
std::vector<TreebankSentence> ReadTreebank(const std::filesystem::path& path);

}  // namespace headwise
