// Tokens that are found in the text before anything else happens to it.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "headwise/tokenizer/aligned_text.h"
#include "headwise/tokenizer/byte_trie.h"
#include "headwise/tokenizer/normalizer.h"
#include "headwise/tokenizer/vocabulary.h"

namespace headwise {

struct AddedToken {
  std::string content;
  TokenId id = kNoToken;
  bool special = false;      // left out by Decode when asked
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the spaces before it along
  bool rstrip = false;       // takes the spaces after it along
  bool normalized = false;   // looked for in the normalised text
};

// A stretch of text, or the added token that stands there.
struct AddedSegment {
  Range range;
  TokenId id;  // kNoToken: text
};

class AddedTokens {
 public:
  void Add(AddedToken token, const Normalizer& normalizer);

  // The text cut at added tokens; `normalized` says which kind to look for.
  std::vector<AddedSegment> Cut(std::string_view text, bool normalized) const;

  const AddedToken* Find(TokenId id) const;
  const AddedToken* Find(const std::string& content) const;
  // The largest id plus one.
  TokenId size() const { return size_; }
  size_t count() const { return tokens_.size(); }

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<TokenId, size_t> by_id_;
  std::unordered_map<std::string, size_t> by_content_;
  ByteTrie plain_;
  ByteTrie normalized_;
  TokenId size_ = 0;
};

}  // namespace headwise
