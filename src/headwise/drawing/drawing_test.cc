// Text of every width, escaping, and what programs read of a study.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>

#include "headwise/base/json.h"
#include "headwise/drawing/html.h"
#include "headwise/drawing/numbers.h"
#include "headwise/drawing/study_report.h"
#include "headwise/drawing/svg.h"
#include "headwise/drawing/terminal.h"
#include "headwise/drawing/text.h"
#include "headwise/error.h"

namespace headwise::drawing_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(TextTest, CountsColumnsNotBytes) {
  EXPECT_EQ(DisplayWidth("cat"), 3);
  EXPECT_EQ(DisplayWidth("α ≤ 1"), 5);
  EXPECT_EQ(DisplayWidth("猫"), 2);
  EXPECT_EQ(DisplayWidth("e\xcc\x81"), 1);  // e and a combining accent
  EXPECT_EQ(DisplayWidth("\xff\xc3"), 8);   // ⟨ff⟩⟨c3⟩
}

TEST(TextTest, ADrawingKeepsItsColoursAlone) {
  const Console color = {.width = 80, .color = true};
  const std::string drawn = Dim(color, "a\x1b[2Jb") + "c\n";
  EXPECT_EQ(VisibleDrawing(drawn), drawn);
  EXPECT_EQ(VisibleDrawing("\x1b[48;5;17mx\x1b[0m"), "\x1b[48;5;17mx\x1b[0m");
  EXPECT_EQ(VisibleDrawing("x\x1b[2Jy\x1b]0;t\x07\x1b[1"),
            "x⟨1b⟩[2Jy⟨1b⟩]0;t⟨07⟩⟨1b⟩[1");
}

TEST(TextTest, JsonKeepsItsValue) {
  const Json value = {{"猫\n", "a\x1b\x7f\xc2\x9b\xe2\x80\xae"}};
  const std::string text = VisibleJson(value.dump(2));
  EXPECT_THAT(text, HasSubstr("\\u001b\\u007f\\u009b\\u202e"));
  EXPECT_EQ(Json::parse(text), value);
  EXPECT_EQ(VisibleJson("\"\xff\""), "\"\\ufffd\"");
}

// What a token, a file's name or a treebank holds must not act on a terminal.
TEST(TextTest, WritesOutWhatATerminalWouldObey) {
  EXPECT_EQ(Visible("a\x1b[2Jb\x07\x7f"), "a⟨1b⟩[2Jb⟨07⟩⟨7f⟩");
  EXPECT_EQ(Visible("\xc2\x9b"), "⟨9b⟩");              // CSI in one character
  EXPECT_EQ(Visible("\xe2\x80\xae"), "⟨202e⟩");        // right to left
  EXPECT_EQ(Visible("\xff\xe2\x82"), "⟨ff⟩⟨e2⟩⟨82⟩");  // no UTF-8
  EXPECT_EQ(Visible("\xc1\x81\xed\xa0\x80"),  // A in two bytes, half a pair
            "⟨c1⟩⟨81⟩⟨ed⟩⟨a0⟩⟨80⟩");
  EXPECT_EQ(Visible("\xf4\x90\x80\x80"), "⟨f4⟩⟨90⟩⟨80⟩⟨80⟩");  // too large
  EXPECT_EQ(Visible("naïve 猫\n\tend"), "naïve 猫\n\tend");
  EXPECT_EQ(VisibleName("a\nb\tc\x1b猫"), "a⟨0a⟩b⟨09⟩c⟨1b⟩猫");
  const Console color = {.width = 80, .color = true};
  for (const std::string& text :
       {Shorten("\x1b[31mred", 80), PadRight("\x1b", 8), PadLeft("\x1b", 8),
        Wrap("a \x1b b", 80)}) {
    EXPECT_THAT(text, AllOf(HasSubstr("⟨1b⟩"), Not(HasSubstr("\x1b"))));
  }
  EXPECT_EQ(Bold(color, "\x1b"), "\x1b[1m⟨1b⟩\x1b[0m");
  EXPECT_EQ(DisplayWidth(Shorten("\x1b\x1b\x1b\x1b", 10)), 9);
}

TEST(TextTest, ShortensAndPads) {
  EXPECT_EQ(Shorten("sentence", 5), "sent…");
  EXPECT_EQ(Shorten("cat", 3), "cat");
  EXPECT_EQ(Shorten("cat", 0), "");
  EXPECT_EQ(PadRight("αβ", 4), "αβ  ");
  EXPECT_EQ(PadLeft("猫", 4), "  猫");
  EXPECT_EQ(Wrap("one two three", 8), "one two\nthree\n");
}

TEST(TextTest, DurationsAreNeverNegativeHoweverLong) {
  EXPECT_EQ(Duration(2.1), "3 s");
  EXPECT_EQ(Duration(200), "4 min");
  EXPECT_EQ(Duration(7800), "2 h 10 min");
  EXPECT_EQ(Duration(7e6), "82 days");
  EXPECT_EQ(Duration(4.6e16), "1.5e+09 years");
  EXPECT_EQ(Duration(-1), "0 s");
}

TEST(TextTest, SharesTakeThreeColumns) {
  EXPECT_EQ(Share(0.244), ".24");
  EXPECT_EQ(Share(1), "1.0");
  EXPECT_EQ(Share(0.999), "1.0");
  EXPECT_EQ(Share(0), "0");
}

StudyResult SampleResult() {
  StudyResult result;
  result.AtMost("an error with a rather long name, to fill lines", 1e-6, 1e-5);
  result.seeds = {1};
  result.pictures.push_back(HeatMap{
      "A map", {"one", "two"}, {"The", "cat", "sat"}, {0, .5, .5, 1, 0, 0}});
  result.pictures.push_back(LinePlot{
      "A plot", "x", "y", false, true, {{"line", {1, 2, 3}, {1, 0, 1e-3}}}});
  return result;
}

const Study kSample = {"sample", "A claim.", "an expectation", StudyKind::kLaw,
                       nullptr};

TEST(SvgTest, MarksPointsWhileTheyCanBeToldApart) {
  LinePlot plot{"t", "x", "y", false, false, {{"a", {0, 1}, {1, 2}}}};
  EXPECT_THAT(DrawSvg(plot).body, HasSubstr("<circle"));
  for (int i = 2; i < 200; ++i) {
    plot.series[0].x.push_back(i);
    plot.series[0].y.push_back(1);
  }
  EXPECT_THAT(DrawSvg(plot).body, Not(HasSubstr("<circle")));
}

TEST(TerminalTest, WhatCannotBeSeenIsBlank) {
  const HeatMap map{"A map", {"a", "b"}, {"a", "b"}, {1, NAN, .5, .5}};
  EXPECT_THAT(DrawPicture(map, {.width = 40}), HasSubstr("  a  █1.0\n"));
}

TEST(TerminalTest, NothingIsWiderThanTheConsole) {
  for (int width : {20, 40, 80, 200}) {
    std::istringstream lines(
        StudyText(kSample, SampleResult(), {.width = width, .color = false}));
    for (std::string line; std::getline(lines, line);) {
      // Words themselves are never broken.
      EXPECT_LE(DisplayWidth(line), std::max(width, 24)) << line;
    }
  }
}

TEST(TerminalTest, ColoursOnlyWhereTheyAreTaken) {
  const StudyResult result = SampleResult();
  EXPECT_THAT(StudyText(kSample, result, {.width = 80, .color = false}),
              Not(HasSubstr("\033")));
  EXPECT_THAT(StudyText(kSample, result, {.width = 80, .color = true}),
              HasSubstr("\033"));
}

TEST(TerminalTest, CellsThatDoNotFitAreCounted) {
  const CellRows narrow({.width = 20, .color = false}, 10, 30, 1);
  EXPECT_EQ(narrow.left_out(), 20);
  const CellRows wide({.width = 80, .color = false}, 10, 6, 1);
  EXPECT_EQ(wide.left_out(), 0);
  EXPECT_THAT(wide.Row("cat", std::vector<double>{1, 0, .25, 0, 0, 0}),
              HasSubstr("█1.0"));
}

TEST(StudyReportTest, EndsWithItsWord) {
  StudyResult result = SampleResult();
  EXPECT_THAT(StudyText(kSample, result, {}), HasSubstr("\nHELD: 1 of 1"));
  result.AtMost("too large", 2, 1);
  EXPECT_THAT(StudyText(kSample, result, {}),
              AllOf(HasSubstr("REFUTED: 1 of 2"), HasSubstr("refuted")));
}

TEST(StudyReportTest, JsonHasItsKeys) {
  const Json json = StudyJson(kSample, SampleResult());
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, testing::ElementsAre("study", "claim", "kind", "verdict",
                                         "laws_held", "figures", "seeds",
                                         "full", "steps", "revision", "hash",
                                         "changed_after_a_result", "seconds"));
  EXPECT_EQ(json["kind"], "law");
  EXPECT_EQ(json["verdict"], "HELD");
  const Json figure =
      json["figures"]["an error with a rather long name, to fill lines"];
  EXPECT_EQ(figure["value"], 1e-6);
  EXPECT_EQ(figure["verdict"], "HELD");
  EXPECT_EQ(figure["decides"], true);
}

TEST(StudyReportTest, SaysWhyNothingIsDecided) {
  StudyResult result = SampleResult();
  result.rules.trained = true;
  result.AtLeast("gain", SeedMean{{2, 1, 3}}, 0);
  result.OverSequences({2, 1.25, 2.75});
  result.InformOnly();
  result.AtLeast("theirs", 2, 0);
  const std::string text = StudyText(kSample, result, {.width = 120});
  EXPECT_THAT(text, HasSubstr("\nUNDECIDED: 0 of 2"));
  EXPECT_THAT(text, HasSubstr("undecided, 1 of at least 5 seeds: 1 figure\n"));
  EXPECT_THAT(text, HasSubstr("2 [1, 3] (sequences [1.25, 2.75])"));
  EXPECT_THAT(text, HasSubstr("(information)"));
  const Json json = StudyJson(kSample, result);
  EXPECT_EQ(json["figures"]["gain"]["why"], "1 of at least 5 seeds");
  EXPECT_EQ(json["figures"]["gain"]["sequences"]["low"], 1.25);
  EXPECT_EQ(json["figures"]["theirs"]["decides"], false);
}

TEST(StudyReportTest, ExplainsWhatWasChangedAfterAResult) {
  static constexpr StudyChange kChanges[] = {
      {"two layers", "one layer", "gates closed one", "A commit"}};
  static constexpr uint64_t kFresh[] = {7, 8};
  Study study = kSample;
  EXPECT_THAT(StudyExplanation(study, {}),
              HasSubstr("Nothing changed after a result."));
  study.history = kChanges;
  EXPECT_THAT(StudyExplanation(study, {}),
              AllOf(HasSubstr("First: two layers."), HasSubstr("one layer."),
                    HasSubstr("gates closed one."), HasSubstr("\"A commit\""),
                    HasSubstr("EXPLORATORY at most")));
  EXPECT_EQ(StudyHistoryJson(study)[0]["commit"], "A commit");
  study.fresh_seeds = kFresh;
  EXPECT_THAT(StudyExplanation(study, {}),
              AllOf(HasSubstr("7 8"), Not(HasSubstr("EXPLORATORY"))));
}

TEST(HtmlTest, PagesAreFilledAndTheirWordsStayText) {
  const std::string page = StaticPage("a <b>", "<p>body</p>", "run \"<x>\"");
  EXPECT_THAT(page, HasSubstr("<title>a &lt;b&gt;</title>"));
  EXPECT_THAT(page, HasSubstr("<h1>a &lt;b&gt;</h1><p>body</p>"));
  EXPECT_THAT(page, HasSubstr("<code>run &quot;&lt;x&gt;&quot;</code>"));
  EXPECT_THAT(page, AllOf(HasSubstr("--heat:"), Not(HasSubstr("<script")),
                          Not(HasSubstr("@HEADWISE"))));
  EXPECT_THROW(FillPlaces("<html></html>", {{"<!--plain-->", ""}}), Error);
}

TEST(HtmlTest, TheFirstCellHeadsARow) {
  EXPECT_THAT(HtmlTable({"T", {"a", "b"}, {{"x", "1"}}}, "numbers"),
              AllOf(HasSubstr("<table class=\"numbers\"><caption>T</caption>"),
                    HasSubstr("<th scope=\"col\">b</th>"),
                    HasSubstr("<tr><th scope=\"row\">x</th><td>1</td></tr>")));
}

TEST(NumbersTest, TicksAreRoundAndInside) {
  EXPECT_THAT(Ticks(-0.11, 1),
              testing::ElementsAre(0, .2, testing::DoubleNear(.4, 1e-12),
                                   testing::DoubleNear(.6, 1e-12), .8, 1));
  EXPECT_THAT(Ticks(3, 48), testing::ElementsAre(10, 20, 30, 40));
}

TEST(SvgTest, EscapesText) {
  EXPECT_EQ(Escape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
  EXPECT_EQ(Escape("a\x01 é \xff"), "a  é \uFFFD");
}

TEST(SvgTest, DrawsEveryPictureFinite) {
  const std::string svg = StudySvg(kSample, SampleResult());
  EXPECT_THAT(svg, HasSubstr("<svg xmlns"));
  EXPECT_THAT(svg, HasSubstr("A map"));
  EXPECT_THAT(svg, HasSubstr("polyline"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace headwise::drawing_test
