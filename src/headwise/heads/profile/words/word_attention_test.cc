#include "headwise/heads/profile/words/word_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headwise::word_attention_test {
namespace {

using testing::ElementsAre;

TEST(WordAttention, GivesATokenToTheWordThatHoldsMostOfIt) {
  // [CLS] "un" "happy" " cat" "don" "'t" over "unhappy cat do|n't".
  Encoding encoding;
  encoding.spans = {{0, 0}, {0, 2}, {2, 7}, {7, 11}, {12, 15}, {15, 17}};
  encoding.added = {1, 0, 0, 0, 0, 0};
  encoding.ids.resize(6);
  const std::vector<TextSpan> words = {{0, 7}, {8, 11}, {12, 14}, {14, 17}};
  const auto word_of_token = WordsOfTokens(encoding, words);
  EXPECT_THAT(word_of_token, ElementsAre(-1, 0, 0, 1, 2, 3));
  EXPECT_THAT(TokensOfWords(word_of_token, 5),
              ElementsAre(ElementsAre(1, 2), ElementsAre(3), ElementsAre(4),
                          ElementsAre(5), ElementsAre()));
}

TEST(WordAttention, SumsOverPiecesAttendedTo) {
  // Words: 0 = tokens 1, 2; 1 = token 3; token 0 is special.
  const std::vector<int32_t> word_of_token = {-1, 0, 0, 1, 2};
  const auto tokens = TokensOfWords(word_of_token, 3);
  const std::vector<float> map = {
      1,   0,   0,   0,   0,    // special
      .5f, .1f, .1f, .3f, 0,    // first piece of word 0 likes word 1
      0,   .1f, .1f, 0,   .8f,  // its second piece word 2
      .4f, .2f, .2f, .2f, 0,    // word 1: .4 on word 0, though token 0 leads
      0,   .2f, .2f, .3f, .3f,  // word 2: word 0 (.4) before word 1 (.3)
  };
  const auto most = [&](FromWord from) {
    return MostAttendedWords({map.data(), 5}, tokens, word_of_token, 3, from,
                             true);
  };
  EXPECT_THAT(most(FromWord::kMean), ElementsAre(2, 0, 0));
  EXPECT_THAT(most(FromWord::kFirstPiece), ElementsAre(1, 0, 0));
}

TEST(WordAttention, FindsNothingWhereAWordAttendsToNoOther) {
  const std::vector<int32_t> word_of_token = {0, 1};
  const auto tokens = TokensOfWords(word_of_token, 3);
  const std::vector<float> map = {1, 0, 0, 1};
  EXPECT_THAT(MostAttendedWords({map.data(), 2}, tokens, word_of_token, 3,
                                FromWord::kMean, true),
              ElementsAre(-1, -1, -1));
  EXPECT_THAT(MostAttendedWords({map.data(), 2}, tokens, word_of_token, 3,
                                FromWord::kMean, false),
              ElementsAre(0, 1, -1));
}

}  // namespace
}  // namespace headwise::word_attention_test
