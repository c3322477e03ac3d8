// Tokens and their ids, both ways.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "headwise/base/json.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

inline constexpr TokenId kNoToken = -1;
// Ids of real vocabularies stay far below; a larger one is a broken file.
inline constexpr TokenId kMaxTokenId = (1 << 24) - 1;
// Of tokens that are looked for at every place of a text, each of which costs
// as many steps as the token has bytes.
inline constexpr size_t kMaxSoughtBytes = 1024;
// Throws Error(kCorrupt) naming `where` for a longer one.
void CheckSought(std::string_view token, const std::string& where);

class Vocabulary {
 public:
  // {"token": id, …}. Throws Error(kCorrupt) naming the token.
  static Vocabulary FromJson(const JsonCursor& json);

  // The last id given to a token counts, and the last token of an id.
  void Add(std::string token, TokenId id);

  // The id of a token, or kNoToken.
  TokenId Find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? kNoToken : found->second;
  }
  // The token of an id, or null.
  const std::string* Token(TokenId id) const {
    const auto found = tokens_.find(id);
    return found == tokens_.end() ? nullptr : found->second;
  }
  // The largest id plus one.
  TokenId size() const { return size_; }
  // Ids that stand for something.
  size_t count() const { return tokens_.size(); }

  // "<0x0A>": how byte fallback writes a byte.
  TokenId FindByte(unsigned char byte) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  // Nodes of an unordered_map stay where they are, also when it is moved.
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
  std::unordered_map<TokenId, const std::string*> tokens_;
  TokenId size_ = 0;
};

// Throws Error(kCorrupt) naming `where` when the largest id leaves so many
// below it unused (`used` are) that a model's table would be mostly air.
void CheckIds(TokenId largest, size_t used, const std::string& where);

}  // namespace headwise
