// Door: text_reading.h.
#include "text_reading.h"

#include <fmt/core.h>

#include <algorithm>

#include "console.h"
#include "headwise/tokenizer/piece_text.h"

namespace headwise {
namespace {

// Enough to tell a script by.
constexpr size_t kBytesRead = 16 << 10;
constexpr double kMostUnknown = 0.5;

}  // namespace

void AddReadingFlags(CommandLine line, ReadingFlags& flags) {
  line.Option("--bos", flags.bos,
              "Whether texts begin with the model's begin token: yes, no, or "
              "auto, as its tokenizer's files say (headwise info names it)")
      .OneOf({"auto", "yes", "no"})
      .ShowDefault();
}

void WarnUnknownScript(const Tokenizer& tokenizer, std::string_view text) {
  size_t end = std::min(text.size(), kBytesRead);
  // Not inside a character.
  while (end < text.size() && end > 0 &&
         (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  const double unknown = UnknownLetters(tokenizer, text.substr(0, end));
  if (unknown <= kMostUnknown) return;
  WriteStderr(
      "warning: [text] expected letters that the tokenizer knows; found "
      "{:.0f} % that it does not, or knows only as bytes; the model was "
      "hardly trained on such text\n",
      100 * unknown);
}

void WarnUnknownScript(const Tokenizer& tokenizer,
                       std::span<const TokenWindow> windows) {
  if (windows.empty() || windows[0].source.text == nullptr) return;
  WarnUnknownScript(tokenizer, *windows[0].source.text);
}

void WarnUnknownScript(const Tokenizer& tokenizer, TextSource& source) {
  if (const Document* document = source.Peek()) {
    WarnUnknownScript(tokenizer, document->text);
  }
}

}  // namespace headwise
