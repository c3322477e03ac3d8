#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "headwise/drawing/arcs_svg.h"
#include "headwise/drawing/pictures.h"
#include "headwise/drawing/terminal.h"
#include "headwise/tensor/matrix.h"

namespace headwise::attention_drawing_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos;
       at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST(CatSat, RowsAreDistributions) {
  const std::vector<HeatMap> maps = CatSatExamples();
  EXPECT_EQ(maps.size(), 9u);
  for (const HeatMap& map : maps) {
    ASSERT_EQ(map.values.size(), map.rows.size() * map.columns.size());
    for (size_t r = 0; r < map.rows.size(); ++r) {
      double sum = 0;
      for (size_t c = 0; c < map.columns.size(); ++c) {
        sum += map.values[r * map.columns.size() + c];
      }
      EXPECT_NEAR(sum, 1, 1e-12) << map.title;
    }
  }
}

TEST(Arcs, LeadToWhatIsLookedAt) {
  HeatMap map{"t",
              {"a", "b", "c"},
              {"a", "b", "c"},
              {1, 0, 0, .7, .3, 0,  //
               .02, .98, 0}};
  const std::string body = DrawArcs(map).body;
  EXPECT_EQ(Count(body, "<path"), 4u);  // two loops, two arcs; .02 is left out
  EXPECT_THAT(body, HasSubstr("<title>c → b .98</title>"));
  EXPECT_THAT(body, Not(HasSubstr("c → a")));
  map.columns = {"x", "y", "z"};
  EXPECT_EQ(Count(DrawArcs(map).body, "<path"), 4u);
}

// Columns are 56 wide after a margin of 20, as in the map above the arcs.
TEST(Looks, StartAtTheWordThatLooks) {
  const HeatMap map{
      "t", {"sat"}, {"The", "cat", "sat", "on"}, {0, .6, .1, .3}, 2};
  const std::string body = DrawLooks(map).body;
  EXPECT_EQ(Count(body, "<path"), 3u);
  EXPECT_EQ(Count(body, "d=\"M160.0"), 2u);  // to "cat" and "on"
  EXPECT_THAT(body, HasSubstr("<title>sat → cat .60</title>"));
  for (const char* place : {">−2<", ">−1<", ">0<", ">+1<"}) {
    EXPECT_THAT(body, HasSubstr(place));
  }
}

TEST(Looks, NameTheHeadsThatShareAQuery) {
  const HeatMap map{"t", {"syntax", "meaning"}, {"a", "b"}, {1, 0, 0, 1}, 1};
  const std::string svg = AttentionSvg({&map, 1}, "t", "");
  EXPECT_THAT(svg, HasSubstr(">syntax</text>"));
  EXPECT_THAT(svg, HasSubstr(">meaning</text>"));
  EXPECT_THAT(svg, HasSubstr("The framed word looks"));
}

TEST(CatSat, WordsLookFromWhereTheyStand) {
  for (const HeatMap& map : CatSatExamples()) {
    if (map.rows == map.columns) continue;
    ASSERT_TRUE(map.query) << map.title;
    EXPECT_THAT(map.title + map.rows[0], HasSubstr(map.columns[*map.query]));
  }
}

TEST(AttentionSvg, WhatCannotBeSeenHasNoCell) {
  HeatMap map{"t", {"a", "b"}, {"a", "b"}, {1, NAN, .5, 0}};
  const std::string svg = AttentionSvg({&map, 1}, "t", "");
  EXPECT_THAT(svg, Not(HasSubstr("a → b")));
  EXPECT_THAT(svg, HasSubstr("b → b 0"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(AttentionSvg, SaysWhatItsColoursMean) {
  const HeatMap map{"t", {"a"}, {"a"}, {1}};
  EXPECT_THAT(AttentionSvg({&map, 1}, "t", ""),
              HasSubstr("1: share of a row's attention"));
}

TEST(AttentionSvg, IsOneDocumentAndEscapes) {
  const HeatMap map{"<&>", {"<s>", "\"q\""}, {"<s>", "\"q\""}, {1, 0, .5, .5}};
  const std::string svg = AttentionSvg({&map, 1}, "a & b", "note");
  EXPECT_EQ(Count(svg, "<svg "), 1u);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr("&lt;s&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("<s>")));
}

TEST(AttentionSvg, LongTextsHaveNoLabels) {
  HeatMap map;
  for (int i = 0; i < 96; ++i) map.rows.push_back("word" + std::to_string(i));
  map.columns = map.rows;
  map.values.assign(96 * 96, .5);
  EXPECT_THAT(AttentionSvg({&map, 1}, "t", ""), Not(HasSubstr("word7")));
}

TEST(ShadedTokens, FitAnyWidthWithAndWithoutColour) {
  const std::vector<std::string> tokens = {"The", "cat", "sat",
                                           "extraordinarily", "still"};
  const std::vector<float> shares = {.1f, .6f, 0, .3f, .01f};
  for (const int width : {20, 40, 80}) {
    const std::string plain =
        DrawShadedTokens(tokens, shares, .6f, {.width = width});
    EXPECT_EQ(plain.find('\033'), plain.npos);
    EXPECT_THAT(plain, HasSubstr("███"));
    std::istringstream lines(plain);
    std::string line;
    while (std::getline(lines, line)) EXPECT_LE(DisplayWidth(line), width);
  }
  EXPECT_THAT(
      DrawShadedTokens(tokens, shares, .6f, {.width = 80, .color = true}),
      HasSubstr("\033[48;5;33"));
}

TEST(KeyLists, LeaveOutWhatDoesNotFit) {
  const std::vector<KeyList> lists = {{"sat", {{"cat", .6}, {"The", .3}}}};
  EXPECT_EQ(DrawKeyLists(lists, {.width = 80}), "  sat → cat .60, The .30\n");
  EXPECT_EQ(DrawKeyLists(lists, {.width = 20}), "  sat → cat .60\n");
}

Composition SmallGraph() {
  Composition c;
  c.heads = {{AttentionKind::kSelf, 0, 0}, {AttentionKind::kSelf, 1, 0}};
  c.baseline = .1;
  c.edges = {{0, 1, HeadInput::kKey, .5, .25},
             {0, 1, HeadInput::kQuery, .2, 0}};
  return c;
}

TEST(GraphSvg, DrawsTheStrongestEdges) {
  const std::string one = CompositionSvg(SmallGraph(), 1, "t");
  EXPECT_THAT(one, HasSubstr("0.0 → keys of 1.0: 0.500, changes it by 25 %"));
  EXPECT_THAT(one, Not(HasSubstr("→ queries")));
  EXPECT_THAT(CompositionSvg(SmallGraph(), 9, "t"), HasSubstr("→ queries"));
}

TEST(SimilaritySvg, NamesEveryHead) {
  HeadSimilarity s;
  s.heads = {{AttentionKind::kSelf, 0, 0}, {AttentionKind::kSelf, 0, 1}};
  s.jsd = AsTensor(Matrix(2, 2));
  Matrix map(2, 2);
  map(1, 0) = 1;
  s.group = s.order = {0, 1};
  s.map = AsTensor(map);
  const std::string svg = SimilaritySvg(s, "t");
  EXPECT_THAT(svg, HasSubstr("<title>0.1</title>"));
  EXPECT_THAT(svg, HasSubstr("0.0 → 0.1 1.0"));
}

// Six layers of eight heads: names are small, and all there.
TEST(SimilaritySvg, NamesAxesColoursAndRows) {
  HeadSimilarity s;
  constexpr int64_t kHeads = 48;
  Matrix map(kHeads, 2);
  s.jsd = AsTensor(Matrix(kHeads, kHeads));
  for (int64_t h = 0; h < kHeads; ++h) {
    s.heads.push_back({AttentionKind::kSelf, h / 8, h % 8});
    s.group.push_back(h);
    s.order.push_back(h);
    map(h, 0) = .01 * static_cast<double>(h);
  }
  s.map = AsTensor(map);
  const std::string svg = SimilaritySvg(s, "t");
  EXPECT_THAT(svg, HasSubstr("first direction, in Hellinger distance"));
  EXPECT_THAT(svg, HasSubstr("heads in the order of their groups"));
  EXPECT_THAT(svg, HasSubstr("1: the same attention"));
  EXPECT_THAT(svg, HasSubstr(">0.1</text>"));  // a tick of the map
  EXPECT_EQ(Count(svg, "font-size:9"), 2u * kHeads);
}

// Around one place there is room for a few names only.
TEST(SimilaritySvg, LeavesNamesOutRatherThanCoverPoints) {
  HeadSimilarity s;
  constexpr int64_t kHeads = 40;
  Matrix map(kHeads, 2);
  s.jsd = AsTensor(Matrix(kHeads, kHeads));
  for (int64_t h = 0; h < kHeads; ++h) {
    s.heads.push_back({AttentionKind::kSelf, 0, h});
    s.group.push_back(h);
    s.order.push_back(h);
    map(h, 0) = h == 0 ? 1 : 0;  // all but one at the same place
  }
  s.map = AsTensor(map);
  const std::string svg = SimilaritySvg(s, "t");
  int named = 0;
  for (size_t at = svg.find("font-size:10px"); at != std::string::npos;
       at = svg.find("font-size:10px", at + 1)) {
    ++named;
  }
  EXPECT_GE(named, 3);
  EXPECT_LT(named, 12);
}

}  // namespace
}  // namespace headwise::attention_drawing_test
