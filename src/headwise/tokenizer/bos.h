// Whether texts begin with a token of their own (<s>, <bos>, <|endoftext|>):
// what a tokenizer's files say of it, and what its user asked for. How this
// becomes one rule is in model/text_frame.h.
#pragma once

#include <filesystem>
#include <string_view>

#include "headwise/tokenizer.h"

namespace headwise {

// tokenizer_config.json of a folder, and chat_template.jinja. Without them
// nothing is said. Throws Error(kCorrupt) naming file and key.
BosFacts ReadBosFacts(const std::filesystem::path& folder);

// Whether the first text that a chat template (Jinja) writes begins with the
// token, by its name or as the variable bos_token.
bool OpensWith(std::string_view chat_template, std::string_view token);

}  // namespace headwise
