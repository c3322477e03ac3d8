// What is known of the tokens of a sequence before any head looks at them:
// which are special, punctuation, rare; where words and sentences are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/runtime/windows.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// What a vocabulary says of its tokens.
class TokenTable {
 public:
  // Without a tokenizer (null) nothing is punctuation and texts are ids.
  TokenTable(const Tokenizer* tokenizer, const ModelConfig& config);

  int32_t size() const { return static_cast<int32_t>(texts_.size()); }
  // <bos>, <eos>, <pad> of the model. [CLS] and [SEP] are special where a
  // window added them.
  bool special(int32_t id) const { return Has(special_, id); }
  bool punctuation(int32_t id) const { return Has(punctuation_, id); }
  // Ends a sentence: ". ! ?", their wide forms, or a line end.
  bool sentence_end(int32_t id) const { return Has(sentence_end_, id); }
  // As decoded alone, with the space before it if it has one.
  const std::string& text(int32_t id) const;
  // What random sequences are drawn from: not special, no byte, neither the
  // most nor the least frequent tenth by the vocabulary's order.
  const std::vector<int32_t>& ordinary() const { return ordinary_; }

 private:
  static bool Has(const std::vector<uint8_t>& flags, int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < flags.size() && flags[id] != 0;
  }
  std::vector<std::string> texts_;
  std::vector<uint8_t> special_;
  std::vector<uint8_t> punctuation_;
  std::vector<uint8_t> sentence_end_;
  std::vector<int32_t> ordinary_;
};

// The special tokens of a model, ascending: those of its configuration, and
// what frames its texts. `tokenizer` may be null.
std::vector<int32_t> SpecialTokens(const Tokenizer* tokenizer,
                                   const ModelConfig& config);

// How often tokens occur in a corpus. "Rare" is what is not among the 500 most
// frequent; in vocabularies under 5000, not among those that cover 60 % of the
// corpus.
class TokenCounts {
 public:
  explicit TokenCounts(int32_t vocabulary) : counts_(vocabulary, 0) {}

  void Add(std::span<const int32_t> ids);
  // To be called once all are added.
  void Finish();
  int64_t count(int32_t id) const { return counts_[id]; }
  bool rare(int32_t id) const { return frequent_[id] == 0; }

 private:
  std::vector<int64_t> counts_;
  std::vector<uint8_t> frequent_;
};

// Arrays of one length, one entry a token.
struct TokenNotes {
  std::vector<int32_t> ids;
  std::vector<uint8_t> special;
  std::vector<uint8_t> punctuation;  // never special
  std::vector<uint8_t> rare;         // never special
  std::vector<int32_t> word;         // number of its word; −1: special
  // The rarest token of its sentence, where that one is rare and itself is not
  // special; else −1.
  std::vector<int32_t> rarest;

  int64_t size() const { return static_cast<int64_t>(ids.size()); }
};

// `counts` null: nothing is rare.
TokenNotes Annotate(const TokenRow& row, const TokenTable& table,
                    const TokenCounts* counts);

}  // namespace headwise
