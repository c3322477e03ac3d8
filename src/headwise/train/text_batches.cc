// Windows of text. Door: text_batches.h.
#include "headwise/train/text_batches.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "headwise/error.h"
#include "headwise/ops/loss/loss.h"

namespace headwise {
namespace {

// Streams of random numbers, one kind each, a sequence's number in the rest.
enum Stream : uint64_t {
  kRepeatChoice = 1,
  kRepeatBlock = 2,
  kMasks = 3,
  kSentenceChoice = 4
};

Rng RngOf(uint64_t seed, Stream kind, int64_t i) {
  return Rng(seed, kind << 56 | static_cast<uint64_t>(i));
}

}  // namespace

void RequireSequence(size_t tokens, int64_t length) {
  if (static_cast<int64_t>(tokens) >= length) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"training data",
               "at least " + std::to_string(length) + " tokens, one sequence",
               std::to_string(tokens), "give more text or a shorter sequence"});
}

TextBatches::TextBatches(std::span<const int32_t> tokens,
                         TextBatchOptions options)
    : tokens_(tokens), options_(options) {
  RequireSequence(tokens.size(), options_.length);
  windows_ = static_cast<int64_t>(tokens.size()) / options_.length;
}

bool TextBatches::IsRepeat(int64_t i) const {
  const RepeatMixture& r = options_.repeats;
  const double share = i < r.change ? r.share : r.share_late;
  return share > 0 && RngOf(options_.seed, kRepeatChoice, i).Uniform() < share;
}

std::vector<int32_t> TextBatches::Repeated(int64_t i) const {
  const RepeatMixture& r = options_.repeats;
  Rng rng = RngOf(options_.seed, kRepeatBlock, i);
  const int64_t total = static_cast<int64_t>(tokens_.size());
  const int64_t period = std::min(
      {rng.Between(r.min_period, r.max_period), options_.length, total});
  std::vector<int32_t> block(static_cast<size_t>(period));
  if (rng.Uniform() < r.random_share) {
    for (int32_t& id : block) {
      do {
        id = static_cast<int32_t>(rng.Below(options_.vocabulary));
      } while (id == options_.bos && options_.vocabulary > 1);
    }
  } else {
    const int64_t begin = rng.Between(0, total - period);
    std::copy_n(tokens_.data() + begin, period, block.begin());
  }
  std::vector<int32_t> window(static_cast<size_t>(options_.length));
  for (int64_t t = 0; t < options_.length; ++t) window[t] = block[t % period];
  return window;
}

std::vector<int32_t> TextBatches::Window(int64_t i) const {
  if (IsRepeat(i)) return Repeated(i);
  const int64_t place = options_.shuffled
                            ? ShuffledPlace(i, windows_, options_.seed)
                            : i % windows_;
  const int32_t* begin = tokens_.data() + place * options_.length;
  return {begin, begin + options_.length};
}

// <bos> t0 … t(n−2) predicts t0 … t(n−1); without <bos> the first has nothing
// before it and is only read.
void TextBatches::AddNext(const std::vector<int32_t>& window,
                          TrainBatch& batch) const {
  const bool bos = options_.bos >= 0;
  if (bos) batch.ids.push_back(options_.bos);
  batch.ids.insert(batch.ids.end(), window.begin(),
                   window.end() - (bos ? 1 : 0));
  batch.targets.insert(batch.targets.end(), window.begin() + (bos ? 0 : 1),
                       window.end());
  if (!bos) batch.targets.push_back(kIgnoreTarget);
}

std::vector<std::vector<int32_t>> TextBatches::Sentences(
    int64_t i, const std::vector<int32_t>& window) const {
  // Shorter ones tell nothing: a word and its full stop.
  constexpr size_t kShortest = 4;
  const auto framed = [&](std::span<const int32_t> words, bool over) {
    std::vector<int32_t> sequence(words.begin(), words.end());
    if (over) {  // a window stays as long as it is
      if (options_.bos >= 0) sequence.front() = options_.bos;
      if (options_.eos >= 0) sequence.back() = options_.eos;
    } else {
      if (options_.bos >= 0) sequence.insert(sequence.begin(), options_.bos);
      if (options_.eos >= 0) sequence.push_back(options_.eos);
    }
    return sequence;
  };
  std::vector<std::vector<int32_t>> sentences;
  Rng rng = RngOf(options_.seed, kSentenceChoice, i);
  if (options_.sentence_share > 0 && rng.Uniform() < options_.sentence_share) {
    const std::span<const int32_t> all = window;
    const std::vector<int32_t>& ends = options_.sentence_ends;
    size_t begin = all.size();  // of a sentence that is whole so far
    for (size_t t = 0; t < all.size(); ++t) {
      if (std::find(ends.begin(), ends.end(), all[t]) == ends.end()) continue;
      if (begin <= t && t + 1 - begin >= kShortest) {
        sentences.push_back(framed(all.subspan(begin, t + 1 - begin), false));
      }
      begin = t + 1;
    }
  }
  if (sentences.empty()) sentences.push_back(framed(window, true));
  return sentences;
}

void TextBatches::AddMasked(Rng& rng, std::span<const int32_t> sequence,
                            TrainBatch& batch) const {
  for (size_t t = 0; t < sequence.size(); ++t) {
    const int32_t id = sequence[t];
    const bool frame = (t == 0 && options_.bos >= 0) ||
                       (t + 1 == sequence.size() && options_.eos >= 0);
    const bool unguessed = frame || (id < std::ssize(options_.unguessed) &&
                                     options_.unguessed[id]);
    const bool guess =
        !frame && rng.Uniform() < options_.mask_share && !unguessed;
    const double kind = rng.Uniform();
    const auto other = static_cast<int32_t>(rng.Below(options_.vocabulary));
    batch.targets.push_back(guess ? id : kIgnoreTarget);
    batch.ids.push_back(!guess || kind >= .9 ? id
                        : kind < .8          ? options_.mask
                                             : other);
  }
}

TrainBatch TextBatches::Make(int64_t first, int64_t count) const {
  TrainBatch batch;
  std::vector<int64_t> lengths;
  for (int64_t i = first; i < first + count; ++i) {
    const std::vector<int32_t> window = Window(i);
    if (options_.mask_share <= 0) {
      AddNext(window, batch);
      lengths.push_back(options_.length);
      continue;
    }
    Rng rng = RngOf(options_.seed, kMasks, i);
    for (const std::vector<int32_t>& sequence : Sentences(i, window)) {
      AddMasked(rng, sequence, batch);
      lengths.push_back(static_cast<int64_t>(sequence.size()));
    }
  }
  batch.batch = MakeBatch(lengths);
  return batch;
}

}  // namespace headwise
