// Door: text_notices.h.
#include "headwise/runtime/text_notices.h"

#include <fmt/core.h>

#include <algorithm>

#include "headwise/tokenizer/piece_text.h"

namespace headwise {
namespace {

// Enough to tell a script by.
constexpr size_t kBytesRead = 16 << 10;
constexpr double kMostUnknown = 0.5;

}  // namespace

std::string PastContextNotice(const ModelConfig& config, int64_t tokens) {
  const bool counted =
      config.open_positions() && config.positions != Positions::kNone;
  if (!counted || tokens <= config.context) return "";
  return fmt::format(
      "[context] expected at most {} tokens at once, which the model was "
      "trained for; found {}; heads may do there what they do nowhere else",
      config.context, tokens);
}

std::string UnknownScriptNotice(const Tokenizer& tokenizer,
                                std::string_view text) {
  size_t end = std::min(text.size(), kBytesRead);
  // Not inside a character.
  while (end < text.size() && end > 0 &&
         (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  const double unknown = UnknownLetters(tokenizer, text.substr(0, end));
  if (unknown <= kMostUnknown) return "";
  return fmt::format(
      "[text] expected letters that the tokenizer knows; found {:.0f} % that "
      "it does not, or knows only as bytes; the model was hardly trained on "
      "such text",
      100 * unknown);
}

int64_t Longest(std::span<const TokenWindow> windows) {
  int64_t most = 0;
  for (const TokenWindow& window : windows) {
    most = std::max({most, window.source.size(), window.target.size()});
  }
  return most;
}

}  // namespace headwise
