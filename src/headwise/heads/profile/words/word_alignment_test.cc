#include "headwise/heads/profile/words/word_alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headwise::word_alignment_test {
namespace {

using testing::ElementsAre;

const std::vector<WordPair> kPairs = {
    {{"das", "haus"}, {"the", "house"}},
    {{"das", "buch"}, {"the", "book"}},
    {{"ein", "buch"}, {"a", "book"}},
    {{"ein", "haus"}, {"a", "house"}},
};

TEST(WordAligner, FindsTheWordsThatMeetInEverySentence) {
  const WordAligner aligner(kPairs);
  EXPECT_THAT(aligner.Links(kPairs[0]), ElementsAre(0, 1));
  EXPECT_THAT(aligner.Links(kPairs[2]), ElementsAre(0, 1));
  // Word order is nothing to Model 1.
  EXPECT_THAT(aligner.Links({{"haus", "das"}, {"the", "house"}}),
              ElementsAre(1, 0));
  EXPECT_THAT(aligner.Links({{"das"}, {"unknown"}}), ElementsAre(-1));
}

TEST(WordAligner, OneStepIsTheMeanOfUniformGuesses) {
  const WordAligner aligner(kPairs, 1);
  // "das" shares 2 · 2 target words with 3 sources each: 1/3 apiece.
  EXPECT_DOUBLE_EQ(aligner.Probability("das", "the"), 0.5);
  EXPECT_DOUBLE_EQ(aligner.Probability("das", "house"), 0.25);
  EXPECT_DOUBLE_EQ(aligner.Probability("", "the"), 0.25);
  EXPECT_DOUBLE_EQ(aligner.Probability("das", "a"), 0);
}

TEST(WordAligner, SumsToOneOverTargetsAndRepeatsExactly) {
  const WordAligner one(kPairs), two(kPairs);
  double sum = 0;
  for (const char* word : {"the", "house", "book", "a"}) {
    sum += one.Probability("buch", word);
    EXPECT_EQ(one.Probability("buch", word), two.Probability("buch", word));
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

}  // namespace
}  // namespace headwise::word_alignment_test
