// Windows of a token stream for language models: the next token, or masked
// ones, and among them sequences that repeat one block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/train/batch.h"

namespace headwise {

// Sequences that repeat one block of varying length to their end: what makes
// induction heads form in small models.
struct RepeatMixture {
  double share = 0;        // of the sequences before `change`
  double share_late = 0;   // of the rest
  int64_t change = 0;      // a sequence's number
  int64_t min_period = 8;  // tokens of a block
  int64_t max_period = 120;
  double random_share = .5;  // blocks of random tokens instead of text
};

struct TextBatchOptions {
  int64_t length = 256;  // tokens of a sequence
  int32_t bos = -1;      // begins every window; −1: none
  int32_t vocabulary = 0;
  bool shuffled = true;  // false: windows in order
  uint64_t seed = 1;
  RepeatMixture repeats = {};
  // Masked models: the share of tokens to guess, and what stands for them (of
  // ten: eight times the mask, once a random token, once itself).
  double mask_share = 0;  // 0: predict the next token
  int32_t mask = -1;
  int32_t eos = -1;                  // ends every masked window; −1: none
  std::vector<bool> unguessed = {};  // by id: never to be guessed; may be short
  // The share of masked windows that are read sentence by sentence, each a
  // sequence of its own between bos and eos, and the ids that end one.
  double sentence_share = 0;
  std::vector<int32_t> sentence_ends = {};
};

// Throws Error(kInvalidArgument) for fewer tokens than one sequence has.
void RequireSequence(size_t tokens, int64_t length);

// Borrows the tokens. Window w predicts tokens w·length … (w + 1)·length − 1.
class TextBatches : public BatchSource {
 public:
  // Throws Error(kInvalidArgument) for fewer tokens than one window needs.
  TextBatches(std::span<const int32_t> tokens, TextBatchOptions options);

  TrainBatch Make(int64_t first, int64_t count) const override;
  int64_t size() const override { return windows_; }

 private:
  // The tokens that sequence i predicts, [length].
  std::vector<int32_t> Window(int64_t i) const;
  std::vector<int32_t> Repeated(int64_t i) const;
  bool IsRepeat(int64_t i) const;
  void AddNext(const std::vector<int32_t>& window, TrainBatch& batch) const;
  void AddMasked(Rng& rng, std::span<const int32_t> sequence,
                 TrainBatch& batch) const;
  // The whole sentences within a window, between bos and eos; where there are
  // none, or it is not to be read so, the window itself.
  std::vector<std::vector<int32_t>> Sentences(
      int64_t i, const std::vector<int32_t>& window) const;

  std::span<const int32_t> tokens_;
  TextBatchOptions options_;
  int64_t windows_ = 0;
};

}  // namespace headwise
