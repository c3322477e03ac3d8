// Reports as HTML: nothing in the data can become markup, and everything is
// there without script too.
#include "headwise/report/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "headwise/base/json.h"
#include "headwise/drawing/numbers.h"
#include "headwise/heads/roles/rules.h"
#include "headwise/report/report_json.h"

namespace headwise::html_report_test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Tokens and names that try to leave their place.
constexpr char kHostile[] =
    "</script><script>alert(1)</script><!-- <img src=x onerror=y> \"'&";

Json SmallReport(const std::string& name) {
  return {{"format", "headwise.report/1"},
          {"model", {{"name", name}}},
          {"summary", {{"sentences", {"1 of 2 heads has a role: 1 local."}}}},
          {"heads",
           {{{"id", "0.0"},
             {"layer", 0},
             {"head", 0},
             {"kind", "self"},
             {"content", {{"says", "It copies: what it reads."}}},
             {"roles",
              {{{"name", "local"},
                {"score", 0.81},
                {"low", 0.8},
                {"high", 0.82},
                {"sink_excluded", true}}}}},
            {{"id", "0.1"},
             {"layer", 0},
             {"head", 1},
             {"kind", "self"},
             {"roles", Json::array()}}}},
          {"definitions",
           {{{"name", "local"}, {"sentence", "near"}, {"trap", "short"}}}}};
}

TEST(HtmlReportTest, DataStaysData) {
  const std::string page = HtmlReport(SmallReport(kHostile));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert(1)")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  // What the script tag holds is the same JSON again.
  const size_t begin = page.find("id=\"report\">") + 12;
  const size_t end = page.find("</script>", begin);
  const Json read = ParseJson(page.substr(begin, end - begin), "page");
  EXPECT_EQ(read["model"]["name"], kHostile);
}

TEST(HtmlReportTest, BytesThatAreNoTextAreReplaced) {
  const std::string json = ScriptJson({{"token", "a\xff\xfe z"}});
  EXPECT_EQ(ParseJson(json, "json")["token"], "a\xef\xbf\xbd\xef\xbf\xbd z");
}

TEST(HtmlReportTest, TheEmbeddedPageIsWholeAndAsksForNothing) {
  const std::string page(PageTemplate());
  EXPECT_THAT(page, StartsWith("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr("</html>"));
  EXPECT_THAT(page, Not(HasSubstr(" src=\"http")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_LT(page.size(), size_t{400'000});
}

TEST(HtmlReportTest, PlainTablesHoldEveryHead) {
  const std::string tables = PlainTables(SmallReport("tiny"));
  EXPECT_THAT(tables, HasSubstr("<h1>tiny</h1>"));
  EXPECT_THAT(tables, HasSubstr("1 of 2 heads has a role"));
  EXPECT_THAT(tables, HasSubstr("local 0.81 (0.8 to 0.82) when not at the "
                                "sink"));
  EXPECT_THAT(tables, HasSubstr("0.1</th><td>self</td><td>no role"));
  EXPECT_THAT(tables, HasSubstr("<td>It copies: what it reads.</td>"));
  EXPECT_THAT(tables, HasSubstr("<dt>local</dt>"));
}

TEST(ReportNumbersTest, BytesAreBase64OfShares) {
  const float weights[] = {0.0f, 1.0f, 0.5f, 1.0f};
  EXPECT_EQ(Bytes(weights), "AP+A/w==");
  EXPECT_EQ(Bytes({}), "");
}

TEST(ReportNumbersTest, WhatIsNoNumberIsNull) {
  EXPECT_TRUE(Number(NAN).is_null());
  EXPECT_TRUE(Number(INFINITY).is_null());
  EXPECT_EQ(Number(1.0 / 3), 0.3333);
}

TEST(ReportNumbersTest, RoundedNumbersAreShort) {
  EXPECT_EQ(Json(Rounded(1.0 / 3)).dump(), "0.3333");
  Json json = Json::object();
  PutInterval(json, NAN, 1);
  EXPECT_TRUE(json.empty());
}

TEST(ReportSummaryTest, ThirdsCountEachHeadOnce) {
  std::vector<HeadRoles> roles;
  for (int64_t layer = 0; layer < 6; ++layer) {
    HeadRoles head;
    head.head = {AttentionKind::kSelf, layer, 0};
    if (layer == 5) {
      Role role;
      role.name = "syntactic(nsubj)";
      head.roles = {role, role};
    }
    roles.push_back(head);
  }
  const auto thirds = ThirdsJson(roles)["thirds"];
  ASSERT_EQ(thirds.size(), 3u);
  EXPECT_EQ(thirds[0]["layers"], Json({0, 1}));
  EXPECT_EQ(thirds[0]["counts"]["no role"], 2);
  EXPECT_EQ(thirds[2]["counts"]["syntactic"], 1);
  EXPECT_EQ(thirds[2]["counts"]["no role"], 1);
  const auto kinds = ThirdsJson(roles)["kinds"];
  EXPECT_EQ(kinds["syntactic"]["word"], "syntax");
  EXPECT_EQ(kinds.size(), RoleRules().size());
}

TEST(ReportSummaryTest, BroadHeadsAreCountedApart) {
  auto report = SmallReport("a model");
  report["heads"][1]["roles"] = {
      {{"name", "broad"}, {"score", 0.9}, {"shape", true}}};
  EXPECT_EQ(SummarySentences(report)[0],
            "1 of 2 heads has a role: 1 local. 1 is only broad: attention "
            "spread out, a shape and not a function.");
}

TEST(CopyingTextTest, WordsRestOnTheRunAlone) {
  Profile profile({{AttentionKind::kSelf, 0, 0}});
  const auto says = [&](double mean, double spread) {
    profile.metrics.erase("copying.run");
    for (int s = 0; s < 8; ++s) {
      const double one = mean + (s % 2 == 0 ? spread : -spread);
      profile.Tallies("copying.run")[0].Add(40 * one, 40);
    }
    return CopyingSentence(profile, 0);
  };
  // Whatever the weights would say.
  profile.Tallies("copying")[0].Add(-.7, 1);
  profile.Tallies("copying.vocabulary")[0].Add(-.7, 1);
  EXPECT_THAT(CopyingSentence(profile, 0), HasSubstr("not measured"));
  EXPECT_THAT(says(2, .1), StartsWith("It copies: "));
  EXPECT_THAT(says(2, .1), HasSubstr("by 2.00 logits above the mean"));
  EXPECT_THAT(says(-2, .1), StartsWith("It suppresses: "));
  EXPECT_THAT(says(.05, .001), HasSubstr("hardly moves"));
  EXPECT_THAT(says(.5, 2), HasSubstr("not surely for or against"));
  profile.metrics["copying.run"] = {Tally()};
  EXPECT_THAT(CopyingSentence(profile, 0), HasSubstr("cannot be said"));
}

TEST(ReportSummaryTest, TextFitsTheTerminal) {
  auto report = SmallReport("a model");
  report["summary"]["sentences"] = SummarySentences(report);
  EXPECT_EQ(report["summary"]["sentences"][0],
            "1 of 2 heads has a role: 1 local.");
  for (const int width : {40, 80}) {
    const std::string text = SummaryText(report, {.width = width});
    EXPECT_THAT(text, HasSubstr("local"));
    std::vector<int> widths;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      widths.push_back(DisplayWidth(text.substr(at, end - at)));
      at = end + 1;
    }
    EXPECT_THAT(widths, Each(::testing::Le(width)));
  }
}

}  // namespace
}  // namespace headwise::html_report_test
