#include "headwise/tokenizer/bpe_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/tokenizer/tokenizer_json.h"

namespace headwise::bpe_trainer_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class BpeTrainerTest : public ScratchFolderTest {
 protected:
  std::string Train(const std::string& text, const VocabularyJob& options) {
    WriteFileAtomically(folder_ / "text", text);
    TextSource texts({folder_ / "text"});
    return TrainByteLevelBpe(texts, options);
  }
};

std::vector<std::string> MergesOf(const std::string& file) {
  return ParseJson(file, "t")["model"]["merges"]
      .get<std::vector<std::string>>();
}

TEST_F(BpeTrainerTest, JoinsTheMostFrequentPairFirst) {
  // Ten "aab", five "ab": a b 15 times, then a ab 10.
  std::string text;
  for (int i = 0; i < 10; ++i) text += "aab\n";
  for (int i = 0; i < 5; ++i) text += "ab\n";
  EXPECT_THAT(MergesOf(Train(text, {.size = 259})), ElementsAre("a b", "a ab"));
}

TEST_F(BpeTrainerTest, EqualCountsGoByTheLowerIds) {
  EXPECT_THAT(MergesOf(Train("yz\nyz\nab\nab\n", {.size = 258})),
              ElementsAre("a b"));
}

TEST_F(BpeTrainerTest, StopsWhereNothingRepeats) {
  EXPECT_TRUE(MergesOf(Train("abcd", {.size = 500})).empty());
  EXPECT_EQ(MergesOf(Train("abcd", {.size = 500, .min_count = 1})).size(), 3u);
}

// A text is counted by stretches of 1 MiB.
TEST_F(BpeTrainerTest, ALongLineIsCutBetweenItsWords) {
  const std::string sentence = " a word's end, and 12 words don't end here.";
  std::string line;
  while (line.size() < (size_t{5} << 18)) line += sentence;
  auto once = TextSource::OfTexts({line});
  auto each = TextSource::OfTexts(
      std::vector<std::string>(line.size() / sentence.size(), sentence));
  const VocabularyJob options = {.size = 300};
  EXPECT_EQ(TrainByteLevelBpe(once, options), TrainByteLevelBpe(each, options));
}

// … and by no more than 2 MiB, which memory holds the matches of.
TEST_F(BpeTrainerTest, ATextWithoutSpacesIsCutAllTheSame) {
  constexpr int64_t kPairs = int64_t{1} << 20;
  std::string line = "x";  // so that a pair lies across the cut
  for (int64_t i = 0; i < kPairs; ++i) line += "yz";
  auto texts = TextSource::OfTexts({line});
  double read = 0;
  const std::string made = TrainByteLevelBpe(
      texts, {.size = 258,
              .min_count = kPairs,
              .on_progress = [&](std::string_view stage, double done, double) {
                if (stage == "read text") read = done;
              }});
  EXPECT_EQ(read, static_cast<double>(line.size()));
  EXPECT_TRUE(MergesOf(made).empty()) << "all pairs were in one word";
}

// Counts every pair anew before each step, as the definition says.
std::vector<std::string> SlowMerges(const std::vector<std::string>& words,
                                    size_t count) {
  std::vector<std::vector<std::string>> symbols;
  for (const std::string& word : words) {
    symbols.emplace_back();
    for (char c : word) symbols.back().push_back(std::string(1, c));
  }
  std::vector<std::string> merges;
  while (merges.size() < count) {
    std::map<std::string, int> pairs;
    for (const auto& word : symbols) {
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        ++pairs[word[i] + " " + word[i + 1]];
      }
    }
    int most = 1;
    for (const auto& [pair, n] : pairs) most = std::max(most, n);
    std::vector<std::string> best;
    for (const auto& [pair, n] : pairs) {
      if (n == most) best.push_back(pair);
    }
    if (most < 2 || best.size() != 1) break;  // ties are another test's
    merges.push_back(best[0]);
    const size_t space = best[0].find(' ');
    const std::string left = best[0].substr(0, space);
    const std::string right = best[0].substr(space + 1);
    for (auto& word : symbols) {
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != left || word[i + 1] != right) continue;
        word[i] += right;
        word.erase(word.begin() + static_cast<ptrdiff_t>(i) + 1);
      }
    }
  }
  return merges;
}

TEST_F(BpeTrainerTest, AgreesWithCountingEverythingAnew) {
  std::vector<std::string> words;
  std::string text;
  unsigned state = 7;
  for (int i = 0; i < 400; ++i) {
    std::string word;
    for (int j = 0; j < 9; ++j) {
      state = state * 1664525 + 1013904223;
      // Letters of falling frequency, so that ties come late.
      word += static_cast<char>('a' + __builtin_ctz(state >> 8 | 0x80));
    }
    words.push_back(word);
    text += word + "\n";
  }
  const std::vector<std::string> slow = SlowMerges(words, 40);
  ASSERT_GE(slow.size(), 10u);
  const auto size = static_cast<int64_t>(257 + slow.size());
  EXPECT_EQ(MergesOf(Train(text, {.size = size})), slow);
}

TEST_F(BpeTrainerTest, TheFileItWritesEncodesAndDecodesAnything) {
  const std::string file = Train("the cat and the hat and the bat\n",
                                 {.size = 300, .special_tokens = {"<eos>"}});
  const auto tokenizer = ParseTokenizerJson(file, "t");
  EXPECT_EQ(tokenizer->Id("<bos>"), 0);
  EXPECT_EQ(tokenizer->Id("<eos>"), 1);
  const std::string text = "the cat \xF0\x9F\x98\x80\n\tä<eos>";
  const Encoding found = tokenizer->Encode(text);
  EXPECT_EQ(found.ids.front(), 0);
  EXPECT_EQ(found.ids.back(), 1);
  EXPECT_EQ(tokenizer->Decode(found.ids, {.skip_special_tokens = false}),
            "<bos>" + text);
  EXPECT_LT(tokenizer->Encode(" the").size(), 3u);
}

TEST_F(BpeTrainerTest, LongTextsGiveTheSameWordsAsShortOnes) {
  // Longer than one stretch; every line the same, so counts are exact.
  std::string text;
  while (text.size() < (size_t{5} << 19)) text += "one two  three\n\n four\n";
  const std::string once = Train(
      "one two  three\n\n four\n"
      "one two  three\n\n four\n",
      {.size = 280});
  EXPECT_EQ(MergesOf(Train(text, {.size = 280})), MergesOf(once));
}

// Pieces of a long text end where a line does, here before spaces that belong
// to its words.
TEST_F(BpeTrainerTest, PiecesOfATextCutNoWords) {
  std::string text;
  while (text.size() < 3 * TextSource::kMostDocumentBytes) {
    text += "word\n    word\n    ";
  }
  const auto merges = MergesOf(Train(text, {.size = 400, .min_count = 1}));
  EXPECT_EQ(merges, MergesOf(Train("word\n    word\n    word\n    word\n    ",
                                   {.size = 400, .min_count = 1})));
}

TEST_F(BpeTrainerTest, RefusesImpossibleRequests) {
  EXPECT_THROW(Train("a", {.size = 256}), Error);
  EXPECT_THROW(Train("a", {.special_tokens = {"<bos>"}}), Error);
  EXPECT_THROW(Train("a", {.special_tokens = {"a"}}), Error);
  EXPECT_THROW(Train("a\xff", {}), Error);
  EXPECT_THROW(Train("a", {.min_count = 0}), Error);
  EXPECT_THROW(Train("a", {.min_count = -1}), Error);
}

}  // namespace
}  // namespace headwise::bpe_trainer_test
