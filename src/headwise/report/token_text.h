// Tokens as people read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// Turns vocabulary entries ("Ġthe", "▁the", "##ing", "<0x0A>") into the text
// that they stand for, with a space in front where they begin a word. Without a
// tokenizer (null) ids are written as numbers and entries stay as they are.
// Borrows the tokenizer.
class TokenText {
 public:
  explicit TokenText(const Tokenizer* tokenizer);

  std::string Of(TokenId id) const;
  // An entry as the vocabulary writes it; an unknown one stays as it is.
  std::string Of(std::string_view entry) const;

 private:
  const Tokenizer* tokenizer_;
  bool word_pieces_ = false;  // "##" continues a word, all else begins one
};

// Whether a token reads as (a piece of) a word: three letters or more.
bool IsWord(std::string_view text);

}  // namespace headwise
