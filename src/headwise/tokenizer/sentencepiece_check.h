// The fence before the SentencePiece library, which trusts what a model says of
// itself and reads beyond its memory where that is wrong.
#pragma once

#include <string>
#include <string_view>

namespace headwise {

// `bytes` of a `.model` file called `where`. Throws Error(kCorrupt) with the
// byte unless its messages have the lengths they state, pieces are text with a
// known type and a finite score, and character maps are whole.
void CheckSentencePiece(std::string_view bytes, const std::string& where);

}  // namespace headwise
