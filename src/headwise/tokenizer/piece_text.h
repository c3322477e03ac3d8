// Tokens as people read them, also where one is half a character; and whether
// a vocabulary knows the letters of a text.
#pragma once

#include <string>
#include <string_view>

#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// The bytes as text; those that spell no character as "⟨e8 b9⟩".
std::string ShowBytes(std::string_view bytes);

// The share, from 0 to 1, of a text's letters that are unknown to the
// vocabulary, left out, or cut into bytes; 0 for a text without letters. High
// where the text is in a script that the tokenizer was not made for.
double UnknownLetters(const Tokenizer& tokenizer, std::string_view text);

}  // namespace headwise
