// tokenizer.json: one file that describes a whole tokenizer.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// Throws Error as Tokenizer::Load does. "truncation" and "padding" are passed
// over: how a batch is laid out is not the text's business.
std::unique_ptr<Tokenizer> ReadTokenizerJson(const std::filesystem::path& path);

// The same from memory; `where` is the name for messages.
std::unique_ptr<Tokenizer> ParseTokenizerJson(std::string_view text,
                                              const std::string& where);

}  // namespace headwise
