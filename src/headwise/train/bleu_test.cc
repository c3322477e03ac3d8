// BLEU against values worked out by hand.
#include "headwise/bleu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headwise/error.h"

namespace headwise::bleu_test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(BleuTokensTest, CutsAsMteval13aDoes) {
  EXPECT_THAT(BleuTokens("Hello, world!"),
              ElementsAre("Hello", ",", "world", "!"));
  EXPECT_THAT(BleuTokens("  "), IsEmpty());
  EXPECT_THAT(BleuTokens("don't e-mail"), ElementsAre("don't", "e-mail"));
  // Full stops and commas stay inside numbers; a dash behind a digit does not.
  EXPECT_THAT(BleuTokens("1,234.5 and 10-20."),
              ElementsAre("1,234.5", "and", "10", "-", "20", "."));
  EXPECT_THAT(BleuTokens("U.S. v1.0"), ElementsAre("U", ".", "S", ".", "v1.0"));
  EXPECT_THAT(BleuTokens("..."), ElementsAre(".", ".", "."));
  EXPECT_THAT(BleuTokens("a/b [c] {d} <e> #f"),
              ElementsAre("a", "/", "b", "[", "c", "]", "{", "d", "}", "<", "e",
                          ">", "#", "f"));
}

TEST(BleuTokensTest, ReadsEntitiesAndUnicode) {
  EXPECT_THAT(BleuTokens("&quot;A &amp; B&quot; &amp;lt;"),
              ElementsAre("\"", "A", "&", "B", "\"", "<"));
  EXPECT_THAT(BleuTokens("a<skipped>b"), ElementsAre("ab"));
  // No-break and ideographic spaces part words; letters beside a comma do not
  // fall apart; quotation marks beyond ASCII stay where they are.
  EXPECT_THAT(BleuTokens("grüß\u00A0é,ß\u3000„so“"),
              ElementsAre("grüß", "é", ",", "ß", "„so“"));
  EXPECT_THAT(BleuTokens("a\x1F"
                         "b"),
              ElementsAre("a", "b"));
  EXPECT_THAT(BleuTokens("a \xFF"), ElementsAre("a", "\uFFFD"));
}

TEST(BleuTest, CountsEachGramAtMostAsOftenAsTheReference) {
  // The paper's example: the word "the" seven times.
  const BleuCounts counts =
      CountBleu("the the the the the the the", "The cat is on the mat the");
  EXPECT_EQ(counts.hypothesis, 7);
  EXPECT_EQ(counts.reference, 7);
  EXPECT_THAT(counts.hits, ElementsAre(2, 0, 0, 0));
  EXPECT_THAT(counts.total, ElementsAre(7, 6, 5, 4));
  // Smoothed: 2/7, 1/(2·6), 1/(4·5), 1/(8·4).
  const BleuScore score = ComputeBleu(counts);
  EXPECT_THAT(
      score.precisions,
      ElementsAre(DoubleNear(200. / 7, 1e-9), DoubleNear(100. / 12, 1e-9),
                  DoubleNear(5, 1e-9), DoubleNear(3.125, 1e-9)));
  EXPECT_NEAR(score.score, 100 * std::pow(2. / 7 / 12 / 20 / 32, .25), 1e-9);
}

TEST(BleuTest, PunishesBrevityOnly) {
  // 5 of 6 words, all n-grams right: only exp(1 − 6/5) is lost.
  const BleuScore brief =
      ComputeBleu(CountBleu("the cat sat on the", "the cat sat on the mat"));
  EXPECT_NEAR(brief.brevity, std::exp(-.2), 1e-12);
  EXPECT_NEAR(brief.score, 100 * std::exp(-.2), 1e-9);
  // One word more: 6/7, 5/6, 4/5, 3/4 right, no penalty.
  const BleuScore wordy = ComputeBleu(
      CountBleu("the cat sat on the mat now", "the cat sat on the mat"));
  EXPECT_EQ(wordy.brevity, 1);
  EXPECT_NEAR(wordy.score, 100 * std::pow(3. / 7, .25), 1e-9);
}

TEST(BleuTest, IsZeroWithoutAnyHitOrAnyFourWords) {
  EXPECT_EQ(ComputeBleu(CountBleu("a b c d e", "f g h i j")).score, 0);
  EXPECT_EQ(ComputeBleu(CountBleu("", "f g")).score, 0);
  EXPECT_EQ(ComputeBleu(CountBleu("f g", "f g")).score, 0)
      << "effective order is off";
}

TEST(BleuTest, AddsCountsOverTheCorpusNotScores) {
  const std::vector<BleuCounts> two = {
      CountBleu("a b c d", "a b c d"),
      CountBleu("the cat sat on the", "the cat sat on the mat")};
  const BleuEstimate both = EstimateBleu(two, {.replicates = 200});
  // 9 words of 10, no wrong n-gram.
  EXPECT_NEAR(both.score.score, 100 * std::exp(1 - 10. / 9), 1e-9);
  EXPECT_EQ(both.counts.reference, 10);
  // Draws of only one of them: exp(−.2) and 1.
  EXPECT_NEAR(both.low, 100 * std::exp(-.2), 1e-9);
  EXPECT_NEAR(both.high, 100, 1e-9);
}

TEST(BleuTest, ComparesOnTheSameSegments) {
  std::vector<BleuCounts> good, bad;
  for (int i = 0; i < 40; ++i) {
    const std::string tail = " w" + std::to_string(i % 7);
    good.push_back(CountBleu("a b c d e" + tail, "a b c d e" + tail));
    bad.push_back(CountBleu("a b c d x" + tail, "a b c d e" + tail));
  }
  const BleuDifference gain = CompareBleu(good, bad);
  EXPECT_GT(gain.low, 30);
  EXPECT_LE(gain.low, gain.value);
  EXPECT_GE(gain.high, gain.value);
  const BleuDifference none = CompareBleu(good, good);
  EXPECT_EQ(none.value, 0);
  EXPECT_EQ(none.low, 0);
  good.pop_back();
  EXPECT_THROW(CompareBleu(good, bad), Error);
}

}  // namespace
}  // namespace headwise::bleu_test
