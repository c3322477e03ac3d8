// Door: text_reading.h.
#include "text_reading.h"

#include "console.h"
#include "flags.h"

namespace headwise {

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
