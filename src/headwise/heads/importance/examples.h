// Text as the examples that losses are taken of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/importance/objective.h"
#include "headwise/runtime/windows.h"

namespace headwise {

// Windows of the texts in order, until `most_tokens` are reached (0: all). See
// TextSource for the paths. Throws Error(kInvalidArgument) for texts of fewer
// than two tokens.
std::vector<TokenWindow> ReadWindows(const std::vector<std::string>& paths,
                                     const WindowCutter& cutter,
                                     int64_t most_tokens);

std::vector<TextExample> ExamplesOf(std::span<const TokenWindow> windows);

// How to score this model on its tokenizer's texts: the mask token, where one
// is needed.
ObjectiveOptions ObjectiveFor(const Tokenizer& tokenizer);

}  // namespace headwise
