// Unigram: of all ways to cut a piece into tokens, the one whose scores add up
// to the most (Viterbi).
#pragma once

#include <string>
#include <vector>

#include "headwise/tokenizer/byte_trie.h"
#include "headwise/tokenizer/model.h"

namespace headwise {

class UnigramModel : public SubwordModel {
 public:
  static std::unique_ptr<UnigramModel> FromJson(const JsonCursor& json);

  void Tokenize(std::string_view piece,
                std::vector<PieceToken>& tokens) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  TokenId unknown() const override { return unknown_; }

 private:
  // The best way to reach a byte of the piece.
  struct Step {
    double score = 0;
    int64_t from = -1;
    TokenId id = kNoToken;
  };

  std::vector<Step> BestSteps(std::string_view piece) const;
  void AddUnknown(std::string_view piece, uint32_t begin, uint32_t end,
                  std::vector<PieceToken>& tokens) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;  // by id
  ByteTrie tokens_;
  TokenId unknown_ = kNoToken;
  double unknown_score_ = 0;
  bool byte_fallback_ = false;
};

}  // namespace headwise
