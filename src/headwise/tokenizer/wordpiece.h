// WordPiece: the longest beginning that is in the vocabulary, again and again.
// WordLevel, its simplest relative: the whole piece or the unknown token.
#pragma once

#include <string>

#include "headwise/tokenizer/byte_trie.h"
#include "headwise/tokenizer/model.h"

namespace headwise {

struct WordPieceOptions {
  std::string unknown = "[UNK]";
  std::string continuing_prefix = "##";
  int64_t max_characters = 100;  // longer words are unknown
};

class WordPieceModel : public SubwordModel {
 public:
  // Throws Error(kCorrupt) naming `where` without the unknown token, and for
  // tokens longer than kMaxSoughtBytes.
  WordPieceModel(Vocabulary vocabulary, WordPieceOptions options,
                 const std::string& where);
  static std::unique_ptr<WordPieceModel> FromJson(const JsonCursor& json);

  void Tokenize(std::string_view piece,
                std::vector<PieceToken>& tokens) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  TokenId unknown() const override { return unknown_; }

 private:
  Vocabulary vocabulary_;
  WordPieceOptions options_;
  TokenId unknown_;
  ByteTrie first_;       // tokens that begin words
  ByteTrie continuing_;  // those that go on, without their prefix
};

class WordLevelModel : public SubwordModel {
 public:
  static std::unique_ptr<WordLevelModel> FromJson(const JsonCursor& json);

  void Tokenize(std::string_view piece,
                std::vector<PieceToken>& tokens) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  TokenId unknown() const override { return unknown_; }

 private:
  Vocabulary vocabulary_;
  TokenId unknown_ = kNoToken;
};

}  // namespace headwise
