// Reading and applying a precompiled character map. Door: precompiled.h.
#include "headwise/tokenizer/precompiled.h"

#include <utf8proc.h>

#include <utility>

#include "headwise/error.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

// Graphemes of this many bytes and more are replaced character by character.
constexpr size_t kLongGrapheme = 6;

// A unit of a double array (Darts-clone): where the children are, which byte
// leads here, whether a value hangs below; or a value itself.
struct Unit {
  uint32_t bits;
  bool has_leaf() const { return (bits >> 8 & 1) != 0; }
  uint32_t value() const { return bits & 0x7FFFFFFF; }
  uint32_t label() const { return bits & (0x80000000 | 0xFF); }
  uint32_t offset() const { return (bits >> 10) << ((bits & 0x200) >> 6); }
};

uint32_t ReadWord(std::string_view bytes, size_t at) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    word |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i]))
            << (8 * i);
  }
  return word;
}

// The end of the grapheme cluster that begins at `at`.
size_t GraphemeEnd(std::string_view text, size_t at) {
  utf8proc_int32_t state = 0;
  CodePoint previous = CharacterAt(text, at);
  at += previous.bytes;
  while (at < text.size()) {
    const CodePoint next = CharacterAt(text, at);
    if (utf8proc_grapheme_break_stateful(
            static_cast<utf8proc_int32_t>(previous.value),
            static_cast<utf8proc_int32_t>(next.value), &state)) {
      break;
    }
    previous = next;
    at += next.bytes;
  }
  return at;
}

// `old_text` becomes `new_text`: one to one as far as both go; what is left
// over is new, or is swallowed by the character before.
void AddReplacement(std::vector<CharacterChange>& changes,
                    std::string_view old_text, std::string_view new_text) {
  const size_t old_count = CountCharacters(old_text);
  size_t count = 0;
  for (size_t at = 0; at < new_text.size(); ++count) {
    const CodePoint next = CharacterAt(new_text, at);
    changes.push_back({next.value, count >= old_count});
    at += next.bytes;
  }
  if (count < old_count && !changes.empty()) {
    changes.back().change -= static_cast<int>(old_count - count);
  }
}

}  // namespace

PrecompiledMap::PrecompiledMap(std::string_view blob,
                               const std::string& where) {
  const size_t bytes = blob.size() < 4 ? 0 : ReadWord(blob, 0);
  if (blob.size() < 4 || bytes > blob.size() - 4 || bytes % 4 != 0) {
    throw Error(
        ErrorCode::kCorrupt,
        {where, "a character map of a whole number of units",
         std::to_string(bytes) + " bytes of " + std::to_string(blob.size()),
         ""});
  }
  for (size_t at = 4; at < 4 + bytes; at += 4) {
    trie_.push_back(ReadWord(blob, at));
  }
  strings_ = blob.substr(4 + bytes);
  const size_t invalid = FindInvalidUtf8(strings_);
  if (invalid != std::string_view::npos) {
    throw Error(ErrorCode::kCorrupt,
                {where + ": byte " + std::to_string(4 + bytes + invalid),
                 "replacements in UTF-8", "other bytes", ""});
  }
}

std::optional<std::string_view> PrecompiledMap::Find(
    std::string_view text) const {
  if (trie_.empty()) return std::nullopt;
  uint32_t node = Unit{trie_[0]}.offset();
  for (char c : text) {
    const uint32_t byte = static_cast<unsigned char>(c);
    if (byte == 0) break;
    node ^= byte;
    if (node >= trie_.size()) break;
    const Unit unit{trie_[node]};
    if (unit.label() != byte) break;
    node ^= unit.offset();
    if (unit.has_leaf()) {
      if (node >= trie_.size()) break;
      const uint32_t begin = Unit{trie_[node]}.value();
      if (begin >= strings_.size()) break;
      // Hostile maps may point into the middle of a character.
      if ((static_cast<unsigned char>(strings_[begin]) & 0xC0) == 0x80) break;
      const size_t end = strings_.find('\0', begin);
      return std::string_view(strings_).substr(
          begin, end == std::string::npos ? end : end - begin);
    }
  }
  return std::nullopt;
}

AlignedText PrecompiledMap::Normalize(const AlignedText& text) const {
  const std::string_view all = text.text();
  std::vector<CharacterChange> changes;
  changes.reserve(all.size());
  bool changed = false;
  for (size_t at = 0; at < all.size();) {
    const size_t end = GraphemeEnd(all, at);
    const std::string_view grapheme = all.substr(at, end - at);
    if (grapheme.size() < kLongGrapheme) {
      if (const auto replacement = Find(grapheme)) {
        AddReplacement(changes, grapheme, *replacement);
        changed = true;
        at = end;
        continue;
      }
    }
    while (at < end) {
      const CodePoint next = CharacterAt(all, at);
      const std::string_view part = all.substr(at, next.bytes);
      if (const auto replacement = Find(part)) {
        AddReplacement(changes, part, *replacement);
        changed = true;
      } else {
        changes.push_back({next.value, 0});
      }
      at += next.bytes;
    }
  }
  return changed ? text.Changed(changes) : text;
}

std::string DecodeBase64(std::string_view text, const std::string& where) {
  const auto value_of = [](char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  const size_t digits = text.find('=');
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  for (char c : text.substr(0, digits)) {
    const int value = value_of(c);
    if (value < 0) {
      throw Error(ErrorCode::kCorrupt,
                  {where, "base64", "another character", ""});
    }
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return bytes;
}

}  // namespace headwise
