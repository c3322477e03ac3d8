// The forms of a comparison: nothing too wide, nothing unescaped, no network.
#include "headwise/drawing/compare_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace headwise::compare_report_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Comparison Compare(const std::string& sentence,
                   std::vector<int64_t> heads = {1, 8}) {
  Context context({.threads = 1, .implementations = ""});
  ComparisonOptions options;
  options.heads = std::move(heads);
  return CompareHeads(context, sentence, options);
}

constexpr char kSentence[] = "The cat sat on the mat";

TEST(CompareTextTest, FitsEveryWidth) {
  std::string long_sentence;
  for (int i = 0; i < 60; ++i)
    long_sentence += "word" + std::to_string(i) + " ";
  for (const std::string& sentence : {std::string(kSentence), long_sentence}) {
    const Comparison comparison = Compare(sentence);
    for (int width : {30, 40, 80, 200}) {
      std::istringstream lines(
          CompareText(comparison, {.width = width, .color = false}));
      for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(DisplayWidth(line), width) << line;
      }
    }
  }
}

TEST(CompareTextTest, SaysThatWeightsAreUntrainedAndWhatIsLost) {
  const std::string text =
      CompareText(Compare(kSentence), {.width = 200, .color = false});
  EXPECT_THAT(text, HasSubstr("untrained"));
  EXPECT_THAT(text, HasSubstr("Lost by averaging"));
  EXPECT_THAT(text, HasSubstr("\"sat\" looks at"));
}

// As `headwise roles` and `headwise show` name them, so that one finds a head
// again.
TEST(CompareTextTest, NamesHeadsOfTrainedModelsByLayerAndHead) {
  Comparison comparison = Compare(kSentence);
  comparison.trained = true;
  for (ComparedHeads& set : comparison.sets) set.layer = 3;
  const std::string text =
      CompareText(comparison, {.width = 200, .color = false});
  EXPECT_THAT(text, HasSubstr("\n  3.0 "));
  EXPECT_THAT(text, HasSubstr("\n  3.7 "));
  EXPECT_THAT(text, Not(HasSubstr("3.8 ")));
  EXPECT_THAT(CompareSvg(comparison), HasSubstr(">head 3.7<"));
}

// Models of any kind: each by its name and its own tokens, with what its heads
// do.
TEST(CompareTextTest, TellsModelsApartAndNamesRoles) {
  Comparison comparison = Compare(kSentence, {1, 2});
  comparison.trained = true;
  comparison.sets[0].model = "wide";
  ComparedHeads& other = comparison.sets[1];
  other.model = "<two>";
  other.layer = 5;
  other.parameters = 1;
  other.tokens = {"The", "c", "at", "sat", "on", "it"};
  other.roles = {"induction", ""};
  const std::string text =
      CompareText(comparison, {.width = 80, .color = false});
  EXPECT_THAT(text, HasSubstr("\"mat\" looks at"));
  EXPECT_THAT(text, HasSubstr("\"it\" looks at"));
  EXPECT_THAT(text, HasSubstr("<two>, layer 5"));
  EXPECT_THAT(text, HasSubstr("Kept by 2 heads of <two>"));
  EXPECT_THAT(text, HasSubstr("5.0 induction; no role: 5.1."));
  EXPECT_THAT(text, Not(HasSubstr("the same for any number")));
  const Json json = CompareJson(comparison);
  EXPECT_EQ(json["sets"][1]["maps"][0]["role"], "induction");
  EXPECT_EQ(json["sets"][1]["tokens"][2], "at");
  EXPECT_FALSE(json.contains("words"));
  const std::string page = ComparePage(comparison);
  EXPECT_THAT(page, HasSubstr("Head 5.0</strong> · induction"));
  EXPECT_THAT(page, HasSubstr("id=\"qg1-5\""));
  EXPECT_THAT(page, Not(HasSubstr("<two>")));
  EXPECT_THAT(page, Not(HasSubstr("equally many weights")));
  EXPECT_THAT(CompareSvg(comparison), Not(HasSubstr("<two>")));
}

TEST(CompareSvgTest, WritesWordsOutThatAreWiderThanTheirColumns) {
  EXPECT_THAT(CompareSvg(Compare("Apple released a new phone because it is")),
              HasSubstr("rotate(-90)\">because<"));
}

TEST(CompareSvgTest, DrawsEverySet) {
  const std::string svg = CompareSvg(Compare(kSentence, {1, 2, 4}));
  EXPECT_THAT(svg, HasSubstr(">one head beside 2 heads beside 4 heads<"));
  EXPECT_THAT(svg, HasSubstr(">2 heads of width 32<"));
  EXPECT_THAT(svg, HasSubstr(">4 heads of width 16<"));
  EXPECT_THAT(svg, HasSubstr("All layers have"));
  EXPECT_THAT(svg,
              ContainsRegex("the 2 heads loses [.0-9]+, the 4 heads [.0-9]"));
  // Heads of a set are drawn apart, be it the first one.
  const std::string alone = CompareSvg(Compare(kSentence, {2}));
  EXPECT_THAT(alone, HasSubstr(">2 heads<"));
  EXPECT_THAT(alone, HasSubstr(">head 1<"));
  EXPECT_THAT(alone, HasSubstr("The layer has"));
}

TEST(CompareJsonTest, HoldsTheMaps) {
  const Json json = CompareJson(Compare(kSentence));
  EXPECT_EQ(json["trained"], false);
  EXPECT_EQ(json["sets"][1]["maps"].size(), 8u);
  double sum = 0;
  for (const auto& value : json["sets"][1]["maps"][3]["weights"][2]) {
    sum += value.get<double>();
  }
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST(ComparePageTest, StandsAloneAndEscapes) {
  const std::string page =
      ComparePage(Compare("a <script>alert(1)</script> & \"b\""));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("&lt;"));
  EXPECT_THAT(page, Not(HasSubstr("http:")));
  EXPECT_THAT(page, Not(HasSubstr("https:")));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(page, HasSubstr("untrained"));
}

TEST(ComparePageTest, WorksForOneWordAndManySets) {
  EXPECT_THAT(ComparePage(Compare("cat", {1})), HasSubstr("</html>"));
  EXPECT_THAT(ComparePage(Compare(kSentence, {1, 2, 64})),
              HasSubstr("Head 63"));
  EXPECT_THAT(CompareSvg(Compare("cat", {1})), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace headwise::compare_report_test
