// Tokens of a row as they are written beside pictures.
#pragma once

#include <string>
#include <vector>

#include "headwise/runtime/windows.h"

namespace headwise {

// Tokens as they stand in the text, without the white space around them ("⏎" or
// "␣" where there is nothing else); added ones as the vocabulary writes them.
std::vector<std::string> TokenLabels(const TokenRow& row,
                                     const Tokenizer& tokenizer);

}  // namespace headwise
