// Warnings about a text before it is run; "" where there is none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "headwise/runtime/windows.h"

namespace headwise {

// That heads will be seen where they were not trained, if `tokens` in one
// window are more than the model's context, which rotary positions allow.
std::string PastContextNotice(const ModelConfig& config, int64_t tokens);

// That a text is in a script that the tokenizer does not know, if most letters
// of its beginning are unknown or cut into bytes.
std::string UnknownScriptNotice(const Tokenizer& tokenizer,
                                std::string_view text);

// Tokens of the longest window, of either side.
int64_t Longest(std::span<const TokenWindow> windows);

}  // namespace headwise
