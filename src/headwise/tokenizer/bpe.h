// Byte-pair encoding: characters are joined pair by pair, the pair that was
// learnt first before all others.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "headwise/tokenizer/model.h"

namespace headwise {

struct BpeOptions {
  std::string unknown;            // token for unknown characters; "": none
  std::string continuing_prefix;  // before every character but the first
  std::string end_suffix;         // after the last character
  bool fuse_unknown = false;      // neighbouring unknowns become one token
  bool byte_fallback = false;     // unknown characters become byte tokens
  bool ignore_merges = false;     // a piece in the vocabulary is taken whole
};

class BpeModel : public SubwordModel {
 public:
  BpeModel(Vocabulary vocabulary, BpeOptions options);
  static std::unique_ptr<BpeModel> FromJson(const JsonCursor& json);

  // A pair that may be joined; lower ranks go first, equal ranks from left to
  // right. Throws Error(kCorrupt) naming `where` when a part or the joined
  // token is not in the vocabulary.
  void AddMerge(int rank, std::string_view left, std::string_view right,
                const std::string& where);

  void Tokenize(std::string_view piece,
                std::vector<PieceToken>& tokens) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  TokenId unknown() const override { return unknown_; }

 private:
  struct Merge {
    int rank;
    TokenId joined;
  };
  struct PairHash {
    size_t operator()(uint64_t pair) const {
      pair *= 0x9E3779B97F4A7C15;  // golden ratio: spreads neighbouring ids
      return pair ^ pair >> 32;
    }
  };
  static uint64_t Pair(TokenId left, TokenId right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }

  void AddCharacters(std::string_view piece,
                     std::vector<PieceToken>& tokens) const;
  void JoinPairs(std::vector<PieceToken>& tokens, size_t first) const;

  Vocabulary vocabulary_;
  BpeOptions options_;
  TokenId unknown_ = kNoToken;
  std::unordered_map<uint64_t, Merge, PairHash> merges_;
};

}  // namespace headwise
