// SentencePiece's precompiled normaliser: a map from character sequences to
// replacements, stored as a double-array trie and a pool of strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/tokenizer/aligned_text.h"

namespace headwise {

class PrecompiledMap {
 public:
  // `blob`: 4 bytes little-endian trie size, the trie, the strings, each ended
  // by a zero byte. Throws Error(kCorrupt) naming `where` and a byte, counted
  // from `first`, unless every walk down the trie stays within it and ends in
  // a replacement.
  PrecompiledMap(std::string_view blob, const std::string& where,
                 size_t first = 0);

  AlignedText Normalize(const AlignedText& text) const;

 private:
  // The replacement of the shortest entry that `text` begins with. (Taking the
  // shortest and putting it for all of the text is what the format's readers
  // do; vocabularies were trained on it.)
  std::optional<std::string_view> Find(std::string_view text) const;

  std::vector<uint32_t> trie_;
  std::string strings_;
};

// Base64 with padding. Throws Error(kCorrupt) naming `where`.
std::string DecodeBase64(std::string_view text, const std::string& where);

}  // namespace headwise
