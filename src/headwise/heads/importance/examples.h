// Text as the examples that losses are taken of.
#pragma once

#include <span>
#include <vector>

#include "headwise/heads/importance/objective.h"
#include "headwise/runtime/windows.h"

namespace headwise {

std::vector<TextExample> ExamplesOf(std::span<const TokenWindow> windows);

// How to score this model on its tokenizer's texts: the mask token, where one
// is needed.
ObjectiveOptions ObjectiveFor(const Tokenizer& tokenizer);

}  // namespace headwise
