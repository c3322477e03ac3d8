// Door: text_argument.h.
#include "text_argument.h"

#include <filesystem>
#include <system_error>

#include "command.h"
#include "console.h"
#include "flags.h"
#include "headwise/error.h"
#include "headwise/text_input.h"

namespace headwise {

void TextArgument::Declare(CommandLine line) {
  line.Option("TEXT", sentence, "The text itself, in quotes");
  line.Option(
      "--text", path,
      "A file that holds the text instead (.gz, .xz, .zst, .jsonl too); - is "
      "standard input");
}

void TextArgument::Require() const {
  if (sentence.empty() == path.empty()) {
    throw UsageError("expected either a text in quotes or --text FILE");
  }
}

void RequireText(const TextArgument& argument) {
  if (argument.path.empty()) {
    HintAtFile(argument.sentence, "--text " + argument.sentence);
    return;
  }
  RequireTexts({argument.path},
               "--text names a file; a sentence is written without it");
}

std::string ReadText(const TextArgument& argument) {
  RequireText(argument);
  return argument.path.empty() ? argument.sentence
                               : ReadFirstText(argument.path);
}

void RequireTexts(const std::vector<std::string>& paths,
                  const std::string& hint) {
  for (const std::string& path : paths) {
    std::error_code unknown;
    if (path == "-" || std::filesystem::exists(path, unknown)) continue;
    throw Error(ErrorCode::kNotFound,
                {path, "a file or folder", "none of that name", hint});
  }
}

void HintAtFile(const std::string& sentence, const std::string& instead) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(sentence, unknown)) return;
  WriteStderr(
      "warning: [{}] is taken as the text itself; found a file of that name; "
      "{} reads it\n",
      sentence, instead);
}

void AddReadingFlags(CommandLine line, ReadingFlags& flags) {
  AddFlags(line, flags);
}

void WarnUnknownScript(const Tokenizer& tokenizer, std::string_view text) {
  if (const std::string notice = UnknownScriptNotice(tokenizer, text);
      !notice.empty()) {
    WriteStderr("warning: {}\n", notice);
  }
}

}  // namespace headwise
