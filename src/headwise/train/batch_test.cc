#include "headwise/train/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "headwise/error.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/tokenizer/bpe_trainer.h"
#include "headwise/tokenizer/tokenizer_json.h"
#include "headwise/train/pair_batches.h"
#include "headwise/train/text_batches.h"

namespace headwise::batch_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ShuffledPlace, VisitsEverythingOnceAnEpochInAnotherOrderEachTime) {
  for (const int64_t size : {1, 2, 7, 64, 1000}) {
    std::vector<int64_t> first, second;
    for (int64_t i = 0; i < size; ++i) {
      first.push_back(ShuffledPlace(i, size, 5));
      second.push_back(ShuffledPlace(size + i, size, 5));
    }
    EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), size);
    EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()).size(), size);
    EXPECT_LT(*std::max_element(first.begin(), first.end()), size);
    if (size >= 64) {
      EXPECT_NE(first, second);
    }
  }
}

std::vector<int32_t> Counting(int count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

TEST(TextBatches, PredictTheNextTokenFromBosOn) {
  const std::vector<int32_t> tokens = Counting(11);
  TextBatchOptions options;
  options.length = 3;
  options.bos = 0;
  options.shuffled = false;
  const TextBatches batches(tokens, options);
  EXPECT_EQ(batches.size(), 3);
  const TrainBatch batch = batches.Make(1, 2);
  EXPECT_THAT(batch.ids, ElementsAre(0, 103, 104, 0, 106, 107));
  EXPECT_THAT(batch.targets, ElementsAre(103, 104, 105, 106, 107, 108));
  EXPECT_THAT(batch.batch.starts, ElementsAre(0, 3, 6));
  EXPECT_EQ(batch.CountTargets(), 6);
}

TEST(TextBatches, WithoutBosTheFirstTokenIsOnlyRead) {
  const std::vector<int32_t> tokens = Counting(3);
  TextBatchOptions options;
  options.length = 3;
  options.shuffled = false;
  const TrainBatch batch = TextBatches(tokens, options).Make(0, 1);
  EXPECT_THAT(batch.ids, ElementsAre(100, 101, 102));
  EXPECT_THAT(batch.targets, ElementsAre(101, 102, kIgnoreTarget));
}

TEST(TextBatches, AreTheSameHoweverTheyAreCut) {
  const std::vector<int32_t> tokens = Counting(500);
  TextBatchOptions options;
  options.length = 10;
  options.bos = 0;
  options.vocabulary = 700;
  options.repeats = {.share = .5, .share_late = .5, .change = 3};
  const TextBatches batches(tokens, options);
  const TrainBatch whole = batches.Make(60, 8);
  const TrainBatch first = batches.Make(60, 3), rest = batches.Make(63, 5);
  std::vector<int32_t> joined = first.ids;
  joined.insert(joined.end(), rest.ids.begin(), rest.ids.end());
  EXPECT_EQ(whole.ids, joined);
}

TEST(TextBatches, MixInRepeatedBlocksOfVaryingLength) {
  const std::vector<int32_t> tokens = Counting(2000);
  TextBatchOptions options;
  options.length = 100;
  options.bos = 0;
  options.vocabulary = 3000;
  options.repeats = {.share = 1,
                     .share_late = 0,
                     .change = 50,
                     .min_period = 8,
                     .max_period = 40};
  const TextBatches batches(tokens, options);
  std::set<int64_t> periods;
  int random = 0;
  for (int i = 0; i < 50; ++i) {
    const std::vector<int32_t> window = batches.Make(i, 1).targets;
    int64_t period = 1;
    while (!std::equal(window.begin() + period, window.end(), window.begin())) {
      ++period;
    }
    EXPECT_GE(period, 8);
    EXPECT_LE(period, 40);
    periods.insert(period);
    if (window[1] != window[0] + 1) ++random;
  }
  EXPECT_GT(periods.size(), 10);
  EXPECT_GT(random, 10);
  EXPECT_LT(random, 40);
  const std::vector<int32_t> later = batches.Make(50, 1).targets;
  EXPECT_EQ(later[99], later[0] + 99);  // text again
}

TEST(TextBatches, MaskAShareOfTheTokens) {
  const std::vector<int32_t> tokens = Counting(10'000);
  TextBatchOptions options;
  options.length = 10'000;
  options.vocabulary = 20'000;
  options.shuffled = false;
  options.mask_share = .15;
  options.mask = 7;
  const TrainBatch batch = TextBatches(tokens, options).Make(0, 1);
  int masked = 0, kept = 0;
  for (size_t t = 0; t < tokens.size(); ++t) {
    if (batch.targets[t] == kIgnoreTarget) {
      EXPECT_EQ(batch.ids[t], tokens[t]);
      continue;
    }
    EXPECT_EQ(batch.targets[t], tokens[t]);
    if (batch.ids[t] == 7) ++masked;
    if (batch.ids[t] == tokens[t]) ++kept;
  }
  EXPECT_NEAR(batch.CountTargets(), 1500, 120);
  EXPECT_NEAR(masked, 1200, 110);
  EXPECT_NEAR(kept, 150, 50);
}

TEST(TextBatches, NeverGuessWhatIsNoWord) {
  const std::vector<int32_t> tokens(1000, 3);
  TextBatchOptions options;
  options.length = 1000;
  options.vocabulary = 10;
  options.mask_share = 1;
  options.mask = 7;
  options.unguessed = {false, false, false, true};
  EXPECT_EQ(TextBatches(tokens, options).Make(0, 1).CountTargets(), 0);
  options.unguessed = {true};
  EXPECT_EQ(TextBatches(tokens, options).Make(0, 1).CountTargets(), 1000);
}

TEST(TextBatches, ReadSomeWindowsSentenceBySentence) {
  // 9 ends a sentence; windows of 16 cut them where they like.
  std::vector<int32_t> tokens;
  for (int i = 0; i < 640; ++i) tokens.push_back(i % 5 == 4 ? 9 : 20 + i % 5);
  TextBatchOptions options;
  options.length = 16;
  options.bos = 1;
  options.eos = 2;
  options.vocabulary = 30;
  options.shuffled = false;
  options.mask_share = 1e-9;
  options.mask = 7;
  options.sentence_ends = {9};
  options.sentence_share = 0.5;
  const TextBatches batches(tokens, options);
  int whole = 0;
  for (int64_t i = 0; i < 40; ++i) {
    const TrainBatch batch = batches.Make(i, 1);
    const std::vector<int32_t>& starts = batch.batch.starts;
    if (starts.size() == 2) {
      ++whole;
      EXPECT_EQ(starts[1], 16);
      EXPECT_EQ(batch.ids.front(), 1);
      EXPECT_EQ(batch.ids.back(), 2);
      continue;
    }
    for (size_t s = 0; s + 1 < starts.size(); ++s) {
      const std::vector<int32_t> sentence(batch.ids.begin() + starts[s],
                                          batch.ids.begin() + starts[s + 1]);
      EXPECT_THAT(sentence, ElementsAre(1, 20, 21, 22, 23, 9, 2));
    }
  }
  EXPECT_GT(whole, 8);
  EXPECT_LT(whole, 32);
  // However they are cut.
  const TrainBatch all = batches.Make(3, 5);
  std::vector<int32_t> joined = batches.Make(3, 2).ids;
  const std::vector<int32_t> rest = batches.Make(5, 3).ids;
  joined.insert(joined.end(), rest.begin(), rest.end());
  EXPECT_EQ(all.ids, joined);
}

TEST(TextBatches, WantAtLeastOneWindow) {
  EXPECT_THROW(TextBatches(Counting(3), {.length = 4}), Error);
}

std::unique_ptr<Tokenizer> Bytes() {
  TextSource none({});
  return ParseTokenizerJson(
      TrainByteLevelBpe(none, {.size = 257, .bos = "<bos>"}), "bytes");
}

TEST(PairBatches, ReadTheSourceAndPredictTheTarget) {
  const auto tokenizer = Bytes();
  std::vector<TokenPair> pairs =
      ReadPairs("ab\tc\r\n\nd\tef\n", "f.tsv", *tokenizer, 100);
  ASSERT_EQ(pairs.size(), 2);
  const int32_t a = pairs[0].source[0], c = pairs[0].target[0];
  PairBatches batches(std::move(pairs),
                      {.start = 1000, .eos = 1001, .shuffled = false});
  const TrainBatch batch = batches.Make(0, 1);
  EXPECT_THAT(batch.source_ids, ElementsAre(a, a + 1, 1001));
  EXPECT_THAT(batch.ids, ElementsAre(1000, c));
  EXPECT_THAT(batch.targets, ElementsAre(c, 1001));
}

TEST(PairBatches, NameTheLineWithoutATab) {
  const auto tokenizer = Bytes();
  try {
    ReadPairs("a\tb\nc d\n", "f.tsv", *tokenizer, 10);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("f.tsv:2"));
    EXPECT_THAT(error.what(), HasSubstr("no tab"));
  }
  EXPECT_THROW(ReadPairs("a\t\n", "f.tsv", *tokenizer, 10), Error);
  EXPECT_THROW(ReadPairs("1\ta\tb\n", "f.tsv", *tokenizer, 10), Error);
  EXPECT_THROW(PairBatches({}, {}), Error);
}

}  // namespace
}  // namespace headwise::batch_test
