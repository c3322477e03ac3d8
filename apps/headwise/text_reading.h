// How commands turn text into tokens: the flag that all of them share, and a
// warning where the tokenizer cannot read a text.
#pragma once

#include <string>
#include <string_view>

#include "command_line.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

struct ReadingFlags {
  std::string bos = "auto";

  TokenizerOptions options() const { return {.bos = ParseBosChoice(bos)}; }
};

// --bos. `flags` must outlive the parse.
void AddReadingFlags(CommandLine line, ReadingFlags& flags);

// Says on standard error that a text is in a script that the tokenizer does
// not know, if most letters of its beginning are unknown or cut into bytes.
void WarnUnknownScript(const Tokenizer& tokenizer, std::string_view text);

}  // namespace headwise
