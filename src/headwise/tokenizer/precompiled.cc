// Reading and applying a precompiled character map. Door: precompiled.h.
#include "headwise/tokenizer/precompiled.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "headwise/error.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

// Graphemes of this many bytes and more are replaced character by character.
constexpr size_t kLongGrapheme = 6;

// A trie has whole blocks of units, one unit for each value of a byte, so that
// a step by any byte stays within the block it begins in.
constexpr size_t kBlock = 256;

// Readers keep the entries that a text begins with in an array of this size.
constexpr int kMostNested = 32;

// The longest of Unicode has 33: a text must not grow without bound.
constexpr size_t kMostReplacement = 1024;

// A unit of a double array (Darts-clone): where the children are, which byte
// leads here, whether a value hangs below; or a value itself.
struct Unit {
  uint32_t bits;
  bool has_leaf() const { return (bits >> 8 & 1) != 0; }
  bool is_value() const { return (bits >> 31) != 0; }
  uint32_t value() const { return bits & 0x7FFFFFFF; }
  // The byte that leads here; a value has none.
  uint32_t label() const { return bits & (0x80000000 | 0xFF); }
  // Of the unit at `at`: the child for a byte is at this ^ byte.
  uint32_t children(uint32_t at) const {
    return at ^ (bits >> 10) << ((bits & 0x200) >> 6);
  }
};

uint32_t ReadWord(std::string_view bytes, size_t at) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    word |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i]))
            << (8 * i);
  }
  return word;
}

// The most entries that one walk from the root passes, or kMostNested + 1 if
// there are more; a hostile trie may walk in circles. Children must lie within
// the trie.
int MostNested(const std::vector<uint32_t>& trie) {
  constexpr uint32_t kNone = UINT32_MAX;
  // Units by the place that their byte leads to them from, as linked lists.
  std::vector<uint32_t> head(trie.size(), kNone), next(trie.size(), kNone);
  for (uint32_t at = 0; at < trie.size(); ++at) {
    const Unit unit{trie[at]};
    if (unit.is_value()) continue;
    next[at] = std::exchange(head[at ^ unit.label()], at);
  }
  std::vector<int> passed(trie.size(), -1);
  std::vector<uint32_t> open = {Unit{trie[0]}.children(0)};
  passed[open[0]] = 0;
  int most = 0;
  while (!open.empty() && most <= kMostNested) {
    const uint32_t from = open.back();
    open.pop_back();
    for (uint32_t at = head[from]; at != kNone; at = next[at]) {
      const Unit unit{trie[at]};
      const uint32_t to = unit.children(at);
      const int count = passed[from] + (unit.has_leaf() ? 1 : 0);
      if (count <= passed[to]) continue;
      passed[to] = count;
      most = std::max(most, count);
      open.push_back(to);
    }
  }
  return most;
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

PrecompiledMap::PrecompiledMap(std::string_view blob, const std::string& where,
                               size_t first) {
  const auto require = [&](bool met, size_t at, const char* expected) {
    if (met) return;
    throw Error(
        ErrorCode::kCorrupt,
        {where + ": byte " + std::to_string(first + at),
         std::string("a character map with ") + expected, "other bytes", ""});
  };
  const size_t bytes = blob.size() < 4 ? 0 : ReadWord(blob, 0);
  require(bytes != 0 && bytes % (4 * kBlock) == 0 && bytes < blob.size() - 4, 0,
          "a trie of whole blocks, then strings");
  for (size_t at = 4; at < 4 + bytes; at += 4) {
    trie_.push_back(ReadWord(blob, at));
  }
  strings_ = blob.substr(4 + bytes);
  require(strings_.back() == '\0', blob.size() - 1, "strings that end");
  const size_t invalid = FindInvalidUtf8(strings_);
  require(invalid == std::string::npos, 4 + bytes + invalid,
          "replacements in UTF-8");
  for (size_t at = 0; at < strings_.size();) {
    const size_t end = strings_.find('\0', at);
    require(end - at <= kMostReplacement, 4 + bytes + at,
            "replacements of at most 1024 bytes");
    at = end + 1;
  }
  for (uint32_t at = 0; at < trie_.size(); ++at) {
    const Unit unit{trie_[at]};
    if (unit.is_value() && at != 0) continue;
    const uint32_t children = unit.children(at);
    require(children < trie_.size(), 4 + 4 * at, "children within the trie");
    if (!unit.has_leaf()) continue;
    const uint32_t begin = Unit{trie_[children]}.value();
    require(begin < strings_.size() &&
                (static_cast<unsigned char>(strings_[begin]) & 0xC0) != 0x80,
            4 + 4 * at, "replacements that begin within the strings");
  }
  require(MostNested(trie_) <= kMostNested, 4,
          "at most 32 entries that begin one another");
}

std::optional<std::string_view> PrecompiledMap::Find(
    std::string_view text) const {
  uint32_t children = Unit{trie_[0]}.children(0);
  for (char c : text) {
    const uint32_t byte = static_cast<unsigned char>(c);
    if (byte == 0) break;
    const uint32_t at = children ^ byte;
    const Unit unit{trie_[at]};
    if (unit.label() != byte) break;
    children = unit.children(at);
    if (unit.has_leaf()) {
      return strings_.c_str() + Unit{trie_[children]}.value();
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
    if (text.budget() != nullptr) text.budget()->CheckBytes(changes.size());
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
