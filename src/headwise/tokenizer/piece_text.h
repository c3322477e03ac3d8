// Tokens as people read them, also where one is half a character; and whether
// a vocabulary knows the letters of a text.
#pragma once

#include <string>
#include <string_view>

#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// The bytes as text; those that spell no character as "⟨e8 b9⟩".
std::string ShowBytes(std::string_view bytes);

// What a token stands for ("Ġthe" for " the", "<0x0A>" for a line's end);
// special ones as the vocabulary writes them, "" for an id of no token. Bytes
// of a character that several tokens share are shown as such.
std::string PieceText(const Tokenizer& tokenizer, TokenId id);

// The share, from 0 to 1, of a text's letters that are unknown to the
// vocabulary, left out, or cut into bytes; 0 for a text without letters. High
// where the text is in a script that the tokenizer was not made for.
double UnknownLetters(const Tokenizer& tokenizer, std::string_view text);

}  // namespace headwise
