// Sentence pairs for encoder–decoders: the source is read, the target is
// predicted. And texts with labels: the class is predicted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/model/text_frame.h"
#include "headwise/tokenizer/tokenizer.h"
#include "headwise/train/batch.h"

namespace headwise {

struct TokenPair {
  std::vector<int32_t> source;
  std::vector<int32_t> target;
};

// Lines "source<tab>target" of a text. Throws Error(kInvalidArgument) naming
// file and line for one without a tab or with an empty side. Sides are cut to
// `longest` tokens.
std::vector<TokenPair> ReadPairs(std::string_view text,
                                 const std::string& where,
                                 const Tokenizer& tokenizer, int64_t longest);
// The same of the documents of a file.
std::vector<TokenPair> ReadPairs(const std::filesystem::path& file,
                                 const Tokenizer& tokenizer, int64_t longest);

struct PairOptions {
  int32_t start = 0;  // what the decoder is fed first
  int32_t eos = 0;    // ends both sides
  bool shuffled = true;
  uint64_t seed = 1;
};

class PairBatches : public BatchSource {
 public:
  // Throws Error(kInvalidArgument) where there are no pairs.
  PairBatches(std::vector<TokenPair> pairs, PairOptions options);

  TrainBatch Make(int64_t first, int64_t count) const override;
  int64_t size() const override { return static_cast<int64_t>(pairs_.size()); }

 private:
  std::vector<TokenPair> pairs_;
  PairOptions options_;
};

struct LabelledText {
  std::vector<int32_t> ids;
  int32_t label = 0;
};

struct LabelledTexts {
  std::vector<LabelledText> texts;
  std::vector<std::string> labels;  // by class, sorted
};

// Lines "text<tab>label" of several files, encoded as the model expects whole
// texts. Throws as ReadPairs does, and for fewer than two labels.
LabelledTexts ReadLabelled(const std::vector<std::filesystem::path>& files,
                           const Framer& framer, int64_t longest);

class LabelledBatches : public BatchSource {
 public:
  // last: the class is read off the last row of a text, else off the first.
  LabelledBatches(std::vector<LabelledText> texts, bool last, bool shuffled,
                  uint64_t seed);

  TrainBatch Make(int64_t first, int64_t count) const override;
  int64_t size() const override { return static_cast<int64_t>(texts_.size()); }

 private:
  std::vector<LabelledText> texts_;
  bool last_;
  bool shuffled_;
  uint64_t seed_;
};

}  // namespace headwise
