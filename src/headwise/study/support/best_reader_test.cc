// The best reader is surprised by what cannot be known, and by nothing else.
#include "headwise/study/support/best_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

namespace headwise::best_reader_test {
namespace {

int32_t TokenOf(const std::string& word) {
  int32_t token = 0;
  while (StoryWord(token) != word) ++token;
  return token;
}

TEST(BestReader, PaysForWhatCannotBeKnown) {
  std::istringstream words(
      "<bos> the red dog near the old cats sees the red dog . the old cats");
  const double costs[] = {0, 12, 24, 2, 0, 3 * 11 / 2.0, 24, 6, 0, 3,
                          0, 0,  0,  3, 0};
  BestReader reader;
  std::string word;
  words >> word;
  int32_t before = TokenOf(word);
  for (const double cost : costs) {
    words >> word;
    const int32_t token = TokenOf(word);
    EXPECT_NEAR(reader.Cost(before, token), cost == 0 ? 0 : std::log(cost),
                1e-12)
        << word;
    before = token;
  }
  EXPECT_EQ(word, "cats");
}

// In each place of a story the chances of all tokens add up to 1.
TEST(BestReader, IsADistribution) {
  constexpr uint64_t kSeed = 7;
  Rng rng(kSeed);
  const std::vector<int32_t> story = MakeStory(rng);
  BestReader reader;
  for (size_t i = 0; i + 1 < story.size(); ++i) {
    // Where something must be chosen: adjectives and what follows a noun.
    if (IsStoryAdjective(story[i + 1])) {
      double sum = 0;
      for (int32_t token = 0; token < kStoryVocabulary; ++token) {
        if (!IsStoryAdjective(token)) continue;
        BestReader copy = reader;
        sum += std::exp(-copy.Cost(story[i], token));
      }
      EXPECT_NEAR(sum, 1, 1e-12) << "seed " << kSeed << ", token " << i;
    }
    reader.Cost(story[i], story[i + 1]);
  }
}

}  // namespace
}  // namespace headwise::best_reader_test
