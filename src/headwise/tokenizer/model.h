// How a piece of text becomes tokens: BPE, WordPiece, Unigram, WordLevel.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/tokenizer/vocabulary.h"

namespace headwise {

// A token and the bytes of the piece it covers.
struct PieceToken {
  TokenId id;
  uint32_t begin;
  uint32_t end;
  bool operator==(const PieceToken&) const = default;
};

// Immutable; threads may share one.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;

  // Appends the tokens of `piece`, which is UTF-8 and not empty.
  virtual void Tokenize(std::string_view piece,
                        std::vector<PieceToken>& tokens) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  // What unknown characters become, or kNoToken.
  virtual TokenId unknown() const = 0;
};

// The "model" of a tokenizer.json. Throws Error(kCorrupt) or, for a type no
// reader knows, Error(kUnsupported).
std::unique_ptr<SubwordModel> MakeSubwordModel(const JsonCursor& json);

}  // namespace headwise
