// Door: piece_text.h.
#include "headwise/tokenizer/piece_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

constexpr std::string_view kReplacementText = "\xEF\xBF\xBD";  // U+FFFD

// The bytes of a token that byte-level or byte-fallback vocabularies write.
std::optional<std::string> BytesOf(std::string_view token) {
  if (token.size() == 6 && token.starts_with("<0x") && token.ends_with('>')) {
    unsigned value = 0;
    const auto [end, error] =
        std::from_chars(token.data() + 3, token.data() + 5, value, 16);
    if (error == std::errc() && end == token.data() + 5) {
      return std::string(1, static_cast<char>(value));
    }
  }
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const CodePoint next = CharacterAt(token, at);
    const int byte = CharacterToByte(next.value);
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    at += next.bytes;
  }
  return bytes;
}

// The bytes of a token that is no whole character; nothing for others.
std::optional<std::string> PartialBytes(const Tokenizer& tokenizer,
                                        TokenId id) {
  const std::string text =
      tokenizer.Decode({&id, 1}, {.skip_special_tokens = false});
  if (text.find(kReplacementText) == std::string::npos) return std::nullopt;
  std::optional<std::string> bytes = BytesOf(tokenizer.Token(id).value_or(""));
  if (!bytes || FindInvalidUtf8(*bytes) == std::string_view::npos) {
    return std::nullopt;
  }
  return bytes;
}

bool IsLetter(char32_t c) { return IsWordCharacter(c) && !IsNumeric(c); }

}  // namespace

std::string ShowBytes(std::string_view bytes) {
  std::string text;
  bool within = false;  // ⟨…⟩
  for (size_t at = 0; at < bytes.size();) {
    const size_t invalid =
        std::min(FindInvalidUtf8(bytes.substr(at)), bytes.size() - at);
    if (invalid > 0) {
      text += within ? "⟩" : "";
      within = false;
      text += bytes.substr(at, invalid);
      at += invalid;
      continue;
    }
    text += fmt::format("{}{:02x}", within ? " " : "⟨",
                        static_cast<unsigned char>(bytes[at++]));
    within = true;
  }
  return within ? text + "⟩" : text;
}

std::string PieceText(const Tokenizer& tokenizer, TokenId id) {
  const std::string token = tokenizer.Token(id).value_or("");
  if (token.empty() || tokenizer.IsSpecial(id)) return token;
  if (const auto bytes = PartialBytes(tokenizer, id)) return ShowBytes(*bytes);
  std::string text = tokenizer.Decode({&id, 1}, {.skip_special_tokens = false});
  // Decoding a text drops the space that was put before its first word.
  constexpr std::string_view kSpaceMark = "▁";
  if (token.starts_with(kSpaceMark) && !text.starts_with(' ')) {
    text.insert(text.begin(), ' ');
  }
  return text;
}

double UnknownLetters(const Tokenizer& tokenizer, std::string_view text) {
  const Encoding encoding =
      tokenizer.Encode(text, {.add_special_tokens = false});
  std::vector<bool> known(text.size());
  std::unordered_map<TokenId, bool> whole;
  for (size_t i = 0; i < encoding.size(); ++i) {
    const TokenId id = encoding.ids[i];
    const auto [entry, fresh] = whole.try_emplace(id, false);
    if (fresh) {
      entry->second =
          tokenizer.unknown() != id && !PartialBytes(tokenizer, id).has_value();
    }
    if (!entry->second) continue;
    const auto [begin, end] = encoding.spans[i];
    std::fill(known.begin() + begin, known.begin() + end, true);
  }
  size_t letters = 0, unknown = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint next = CharacterAt(text, at);
    if (IsLetter(next.value)) {
      ++letters;
      unknown += known[at] ? 0 : 1;
    }
    at += next.bytes;
  }
  return letters == 0
             ? 0
             : static_cast<double>(unknown) / static_cast<double>(letters);
}

}  // namespace headwise
