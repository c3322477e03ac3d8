// How commands turn text into tokens: the flag that all of them share, and a
// warning where the tokenizer cannot read a text.
#pragma once

#include <string_view>

#include "command_line.h"
#include "headwise/tokenizer.h"

namespace headwise {

struct ReadingFlags {
  BosChoice bos = BosChoice::kAuto;

  TokenizerOptions options() const { return {.bos = bos}; }

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("bos", self.bos,
          "whether texts begin with the model's begin token; auto is as its "
          "tokenizer's files say (headwise info names it)");
  }
};

// --bos. `flags` must outlive the parse.
void AddReadingFlags(CommandLine line, ReadingFlags& flags);

// Says on standard error that a text is in a script that the tokenizer does
// not know, if most letters of its beginning are unknown or cut into bytes.
void WarnUnknownScript(const Tokenizer& tokenizer, std::string_view text);

}  // namespace headwise
