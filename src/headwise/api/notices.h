// Warnings about models and texts before they are run
// (OpenOptions::on_notice).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "headwise/model.h"
#include "headwise/runtime/windows.h"
#include "headwise/tokenizer/text_source.h"

namespace headwise {

// That the folder holds tensors which are no part of the model.
void TellUnread(const Transformer& model);

// That the weights will not all be kept ready to multiply, if
// OpenOptions::weight_memory is less than that takes.
void TellWeightMemory(const Transformer& model);

// That heads will be seen where they were not trained, if `tokens` at once are
// more than the model's context, which rotary positions allow.
void TellPastContext(const Transformer& model, int64_t tokens);

// That a head is one head with several uses, where layers share their weights.
void TellShared(const Transformer& model);

// That a text is in a script that the tokenizer does not know, if most letters
// of its beginning are unknown or cut into bytes.
void TellUnknownScript(const Transformer& model, std::string_view text);
// The same warning for the next document of a source.
void TellUnknownScript(const Transformer& model, TextSource& source);

// Both, of windows that were read.
void TellOf(const Transformer& model, std::span<const TokenWindow> windows);

}  // namespace headwise
