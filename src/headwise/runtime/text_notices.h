// Warnings about a text before it is run; "" where there is none. Another is
// UnknownScriptNotice of include/headwise/tokenizer.h.
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

// Tokens of the longest window, of either side.
int64_t Longest(std::span<const TokenWindow> windows);

}  // namespace headwise
