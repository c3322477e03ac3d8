// Door: text_reading.h.
#include "text_reading.h"

#include "console.h"
#include "headwise/runtime/text_notices.h"

namespace headwise {

void AddReadingFlags(CommandLine line, ReadingFlags& flags) {
  line.Option("--bos", flags.bos,
              "Whether texts begin with the model's begin token: yes, no, or "
              "auto, as its tokenizer's files say (headwise info names it)")
      .OneOf({"auto", "yes", "no"})
      .ShowDefault();
}

void WarnUnknownScript(const Tokenizer& tokenizer, std::string_view text) {
  if (const std::string notice = UnknownScriptNotice(tokenizer, text);
      !notice.empty()) {
    WriteStderr("warning: {}\n", notice);
  }
}

}  // namespace headwise
