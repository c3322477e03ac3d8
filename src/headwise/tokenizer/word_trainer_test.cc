#include "headwise/tokenizer/word_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "headwise/error.h"
#include "headwise/tokenizer/tokenizer_json.h"

namespace headwise::word_trainer_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Tokenizer> Learn(const VocabularyJob& options,
                                 std::vector<std::string> texts) {
  TextSource source = TextSource::OfTexts(std::move(texts));
  return ParseTokenizerJson(TrainWords(source, options), "words");
}

TEST(TrainWords, TakesTheMostFrequentWordsAsTheyAreCut) {
  const auto tokenizer =
      Learn({.size = 9}, {"The cat sat. The cat ran, the dog sat.", "A cat!"});
  EXPECT_EQ(tokenizer->vocab_size(), 9);
  EXPECT_EQ(tokenizer->Token(1), "[UNK]");
  EXPECT_EQ(tokenizer->unknown(), 1);
  // 3 × cat, the; 2 × ".", sat.
  EXPECT_EQ(tokenizer->Token(5), "cat");
  EXPECT_EQ(tokenizer->Token(6), "the");
  EXPECT_EQ(tokenizer->Token(7), ".");
  EXPECT_EQ(tokenizer->Token(8), "sat");
  EXPECT_THAT(tokenizer->Encode("THE dog sat.").ids,
              ElementsAre(2, 6, 1, 8, 7, 3));
  EXPECT_THAT(tokenizer->Encode("The cat [MASK].").ids,
              ElementsAre(2, 6, 5, 4, 7, 3));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("The cat sat.").ids),
            "the cat sat.");
}

TEST(TrainWords, KeepsCaseAndFurtherTokensWhereAsked) {
  const auto tokenizer =
      Learn({.min_count = 1, .special_tokens = {"[NEW]"}, .cased = true},
            {"Apple apple Apple"});
  EXPECT_EQ(tokenizer->Id("[NEW]"), 5);
  EXPECT_EQ(tokenizer->Id("Apple"), 6);
  EXPECT_EQ(tokenizer->Id("apple"), 7);
}

TEST(TrainWords, LeavesRareWordsUnknown) {
  EXPECT_EQ(Learn({.min_count = 3}, {"a a a b b"})->vocab_size(), 6);
}

TEST(TrainWords, KnowsIncludedWordsHoweverRare) {
  const auto tokenizer = Learn({.size = 8, .include = {"Mat phone", "sat"}},
                               {"the cat sat on the mat, the cat"});
  // Most frequent first, and the one that no text has last.
  EXPECT_EQ(tokenizer->Id("the"), std::nullopt);
  EXPECT_EQ(tokenizer->Id("mat"), 5);
  EXPECT_EQ(tokenizer->Id("sat"), 6);
  EXPECT_EQ(tokenizer->Id("phone"), 7);
  EXPECT_EQ(Learn({.size = 9, .include = {"phone"}}, {"a a a b b c c c c"})
                ->Id("phone"),
            8);
  EXPECT_THROW(Learn({.size = 6, .include = {"a b"}}, {"a a"}), Error);
}

TEST(TrainWords, RefusesWhatLeavesNoRoom) {
  EXPECT_THROW(Learn({.size = 5}, {"a a"}), Error);
  EXPECT_THROW(Learn({.special_tokens = {"[CLS]"}}, {"a a"}), Error);
}

// Each kind of vocabulary has settings that the other one has not.
TEST(LearnVocabulary, RefusesSettingsOfTheOtherKind) {
  const auto refused = [](const VocabularyJob& job) {
    try {
      LearnVocabulary({}, job);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto words = VocabularyKind::kWords;
  EXPECT_THAT(refused({.cased = true}), HasSubstr("`kind` words with `cased`"));
  EXPECT_THAT(refused({.include = {"mat"}}), HasSubstr("with `include`"));
  EXPECT_THAT(refused({.kind = words, .bos = "<s>"}),
              HasSubstr("`kind` bpe with `bos`"));
  EXPECT_THAT(refused({.min_count = 0}), HasSubstr("found 0"));
}

}  // namespace
}  // namespace headwise::word_trainer_test
