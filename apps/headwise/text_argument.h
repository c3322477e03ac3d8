// The text that a command is given: in every command a sentence is written as
// it is, and --text names files. What looks like the other one gets a hint. And
// how it becomes tokens: --bos.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "command_line.h"
#include "headwise/tokenizer.h"

namespace headwise {

// One text: TEXT itself, or --text FILE.
struct TextArgument {
  std::string sentence;
  std::string path;

  // Declares both. The object must outlive the parse.
  void Declare(CommandLine line);
  // Throws UsageError unless one of them was given.
  void Require() const;
};

// Throws as RequireTexts does; warns where a sentence is the name of a file.
void RequireText(const TextArgument& argument);

// The sentence, or the first document of the file. Throws as ReadFirstText
// (text_input.h) and RequireTexts do.
std::string ReadText(const TextArgument& argument);

// Throws Error(kNotFound) for the first path that --text names in vain. `hint`:
// where a sentence would go instead.
void RequireTexts(const std::vector<std::string>& paths,
                  const std::string& hint =
                      "--text names files or folders, - is standard "
                      "input");

// Warns where a sentence is the name of a file, which `instead` would read.
void HintAtFile(const std::string& sentence, const std::string& instead);

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
