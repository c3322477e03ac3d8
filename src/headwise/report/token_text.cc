// Vocabulary entries as text. Door: token_text.h.
#include "headwise/report/token_text.h"

#include <algorithm>
#include <cctype>

#include "headwise/tokenizer.h"

namespace headwise {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr std::string_view kByteSpace = "\xc4\xa0";        // Ġ
constexpr std::string_view kPieceSpace = "\xe2\x96\x81";   // ▁

bool IsLetter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalpha(byte) != 0;
}

}  // namespace

TokenText::TokenText(const Tokenizer* tokenizer)
    : tokenizer_(tokenizer),
      word_pieces_(tokenizer != nullptr && (tokenizer->Id("##s").has_value() ||
                                            tokenizer->Id("##e").has_value())) {
}

std::string TokenText::Of(TokenId id) const {
  if (tokenizer_ == nullptr) return "#" + std::to_string(id);
  const std::string entry = tokenizer_->Token(id).value_or("");
  if (tokenizer_->IsSpecial(id)) return entry;
  if (word_pieces_) {
    if (entry.starts_with("##")) return entry.substr(2);
    const bool word =
        !entry.empty() && (IsLetter(entry[0]) || std::isdigit(entry[0]) != 0);
    return word ? " " + entry : entry;
  }
  std::string text =
      tokenizer_->Decode(std::span(&id, 1), {.skip_special_tokens = false});
  // Part of a character: no text of its own.
  if (text.empty() || text.find(kReplacement) != std::string::npos) {
    return PieceText(*tokenizer_, id);
  }
  const bool begins =
      entry.starts_with(kByteSpace) || entry.starts_with(kPieceSpace);
  return begins && text[0] != ' ' ? " " + text : text;
}

std::string TokenText::Of(std::string_view entry) const {
  if (tokenizer_ == nullptr) return std::string(entry);
  const auto id = tokenizer_->Id(entry);
  return id ? Of(*id) : std::string(entry);
}

bool IsWord(std::string_view text) {
  if (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  return text.size() >= 3 && std::all_of(text.begin(), text.end(), IsLetter);
}

}  // namespace headwise
