// The rules on profiles written by hand; attention built by hand is judged in
// hand_built_test.cc.
#include "headwise/heads/roles/roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "headwise/error.h"
#include "headwise/heads/roles/roles_json.h"

namespace headwise::roles_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Profile OneHead(AttentionKind kind = AttentionKind::kSelf) {
  Profile profile({{kind, 0, 0}});
  profile.model = "small";
  return profile;
}

// Two sequences of 500 rows each.
void Put(Profile& profile, const std::string& metric, double mean) {
  for (int s = 0; s < 2; ++s) {
    profile.Tallies(metric)[0].Add(500 * mean, 500);
  }
}

// Sequences of 500 rows whose means lie `spread` above and below, in turn.
void PutSpread(Profile& profile, const std::string& metric, double mean,
               double spread, int sequences) {
  profile.metrics.erase(metric);
  for (int s = 0; s < sequences; ++s) {
    const double one = mean + (s % 2 == 0 ? spread : -spread);
    profile.Tallies(metric)[0].Add(500 * one, 500);
  }
}

std::vector<std::string> Names(const Profile& profile,
                               const RoleJob& job = {}) {
  std::vector<std::string> names;
  const auto all = AssignRoles(profile, job);
  for (const Role& role : all[0].roles) names.push_back(ToString(role));
  return names;
}

TEST(Roles, AnEmptyProfileGivesNoRole) {
  const auto roles = AssignRoles(OneHead());
  ASSERT_EQ(roles.size(), 1u);
  EXPECT_TRUE(roles[0].roles.empty());
  EXPECT_EQ(roles[0].closest, "");
}

TEST(Roles, BelowEveryThresholdIsNoRoleAndSaysWhatCameClosest) {
  Profile profile = OneHead();
  Put(profile, "previous", .49);
  Put(profile, "self", .1);
  Put(profile, "first", .2);
  const auto roles = AssignRoles(profile);
  EXPECT_TRUE(roles[0].roles.empty());
  EXPECT_EQ(roles[0].closest, "previous-token .49 of .50");
}

TEST(Roles, TheWholeIntervalMustPassTheThreshold) {
  Profile profile = OneHead();
  PutSpread(profile, "semantic", .27, .1, 8);
  Put(profile, "semantic.chance", 0);
  const auto unsure = AssignRoles(profile);
  EXPECT_TRUE(unsure[0].roles.empty());
  EXPECT_THAT(unsure[0].closest,
              testing::StartsWith("semantic .27 [.18, .36]"));
  PutSpread(profile, "semantic", .27, .01, 8);
  EXPECT_THAT(Names(profile), ElementsAre("semantic"));
}

TEST(Roles, TheIntervalDecidesOnLargestKeysAndBaselinesToo) {
  Profile profile = OneHead();
  Put(profile, "self", .1);
  Put(profile, "previous", .4);
  PutSpread(profile, "previous.argmax", .93, .06, 8);
  EXPECT_THAT(Names(profile), ElementsAre());
  PutSpread(profile, "previous.argmax", .93, .01, 8);
  EXPECT_THAT(Names(profile), ElementsAre("previous-token"));
  profile = OneHead();
  PutSpread(profile, "coreference", .75, .2, 8);
  profile.baselines["coreference.nearest"].Add(2400, 4000);
  EXPECT_THAT(Names(profile), ElementsAre());
  PutSpread(profile, "coreference", .75, .02, 8);
  EXPECT_THAT(Names(profile), ElementsAre("coreference"));
}

TEST(Roles, OfOneSequenceTheScoreItselfDecides) {
  Profile profile = OneHead();
  profile.Tallies("first")[0].Add(61, 100);
  EXPECT_THAT(Names(profile), ElementsAre("first-token"));
}

TEST(Roles, BroadIsNamedLastAndCountedApart) {
  Profile profile = OneHead();
  Put(profile, "entropy.normalised", .9);
  auto roles = AssignRoles(profile);
  EXPECT_FALSE(roles[0].HasFunction());
  EXPECT_EQ(CountRoles(roles).with_function, 0);
  EXPECT_EQ(CountRoles(roles).shape_only, 1);
  EXPECT_EQ(RolesJson(profile, roles)["heads"][0]["roles"][0]["shape"], true);
  // Even before what holds only off the sinks.
  Put(profile, "self", .01);
  Put(profile, "previous", .2);
  Put(profile, "previous.content", .8);
  Put(profile, "sink", .7);
  roles = AssignRoles(profile);
  ASSERT_EQ(roles[0].roles.size(), 2u);
  EXPECT_EQ(roles[0].roles[0].name, "previous-token");
  EXPECT_EQ(CountRoles(roles).with_function, 1);
  EXPECT_EQ(CountRoles(roles).shape_only, 0);
}

TEST(Roles, StrongestComesFirst) {
  Profile profile = OneHead();
  Put(profile, "self", 0);
  Put(profile, "previous", .55);
  Put(profile, "repeats.induction", .9);
  EXPECT_THAT(Names(profile), ElementsAre("induction", "previous-token"));
}

TEST(Roles, AnOffsetTiedWithSelfIsNamedFirst) {
  Profile profile = OneHead();
  Put(profile, "self", .6);
  Put(profile, "next", .5);
  EXPECT_THAT(Names(profile), ElementsAre("next-token", "self"));
}

TEST(Roles, NinetyPercentOfRowsSufficeWithoutHalfTheMass) {
  Profile profile = OneHead();
  Put(profile, "self", .1);
  Put(profile, "previous", .4);
  Put(profile, "previous.argmax", .89);
  EXPECT_THAT(Names(profile), ElementsAre());
  profile.metrics.erase("previous.argmax");
  Put(profile, "previous.argmax", .91);
  EXPECT_THAT(Names(profile), ElementsAre("previous-token"));
}

TEST(Roles, OffsetsThatFewRowsHaveAreNotJudged) {
  Profile profile = OneHead();
  Put(profile, "self", 0);
  profile.Tallies("offset.3")[0].Add(100, 100);
  EXPECT_THAT(Names(profile), ElementsAre());
  profile.Tallies("offset.-3")[0].Add(800, 1000);
  EXPECT_THAT(Names(profile), ElementsAre("offset -3"));
}

TEST(Roles, LocalNeedsMoreThanChanceAndNoSingleOffset) {
  Profile profile = OneHead();
  Put(profile, "self", .3);
  Put(profile, "local", .9);
  Put(profile, "local.chance", .7);
  EXPECT_THAT(Names(profile), ElementsAre());
  profile.metrics.erase("local.chance");
  Put(profile, "local.chance", .1);
  EXPECT_THAT(Names(profile), ElementsAre("local"));
  Put(profile, "previous", .6);
  EXPECT_THAT(Names(profile), ElementsAre("previous-token"));
}

TEST(Roles, RareTokensMustBeatChanceThreefold) {
  Profile profile = OneHead();
  Put(profile, "rare.argmax", .6);
  Put(profile, "rare.argmax.chance", .25);
  EXPECT_THAT(Names(profile), ElementsAre());
  profile.metrics.erase("rare.argmax.chance");
  Put(profile, "rare.argmax.chance", .1);
  EXPECT_THAT(Names(profile), ElementsAre("rare-token"));
}

TEST(Roles, BroadIsNearUniformAndUniformIsNoRole) {
  for (const auto& [entropy, broad] :
       {std::pair{.79, false}, {.81, true}, {.98, true}, {.999, false}}) {
    Profile profile = OneHead();
    Put(profile, "entropy.normalised", entropy);
    EXPECT_EQ(Names(profile).size(), broad ? 1u : 0u) << entropy;
  }
}

TEST(Roles, RolesThatHoldOnlyWithoutTheSinkSaySo) {
  Profile profile = OneHead();
  Put(profile, "self", .01);
  Put(profile, "first", .8);
  Put(profile, "previous", .17);
  Put(profile, "previous.content", .85);
  Put(profile, "sink", .8);
  EXPECT_THAT(Names(profile),
              ElementsAre("first-token",
                          "previous-token (when not at the sink, c = .20)"));
  profile.metrics.erase("sink");
  Put(profile, "sink", .95);
  EXPECT_THAT(Names(profile), ElementsAre("first-token"));
}

TEST(Roles, PositionsMayBeJudgedOnRandomRepeats) {
  Profile profile = OneHead();
  Put(profile, "repeats.self", .01);
  Put(profile, "repeats.previous", .8);
  Put(profile, "repeats.first", .7);
  const auto alone = AssignRoles(profile)[0].roles;
  ASSERT_EQ(alone.size(), 2u);
  EXPECT_EQ(alone[0].name, "previous-token");
  EXPECT_EQ(alone[0].material, "random repeats");
  EXPECT_EQ(alone[1].name, "first-token");
  // With text the sink is what text says; the offset may still be shown.
  Put(profile, "self", .01);
  Put(profile, "previous", .3);
  Put(profile, "first", .4);
  EXPECT_THAT(Names(profile), ElementsAre("previous-token"));
}

TEST(Roles, ThresholdsCanBeSet) {
  Profile profile = OneHead();
  Put(profile, "repeats.induction", .45);
  EXPECT_THAT(Names(profile), ElementsAre("induction"));
  EXPECT_THAT(Names(profile, {.thresholds = {"induction=0.5"}}), ElementsAre());
}

TEST(Roles, UnknownThresholdsNameTheNearest) {
  RoleThresholds thresholds;
  for (const auto& [text, hint] :
       {std::pair{"inducton=.5", "did you mean induction?"},
        {"induction=", "induction=NUMBER"},
        {"induction", "induction=NUMBER"},
        {"induction=2", "between 0 and 1"},
        {"induction=0.5x", "induction=NUMBER"}}) {
    try {
      thresholds.Set(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr(hint));
    }
  }
}

// hits of `cases` on each half, and those of the offset −1.
void PutRelation(Profile& profile, const std::string& way, double hits_a,
                 double hits_b, double offset, double cases) {
  for (const auto& [half, hits] :
       {std::pair{".a", hits_a}, std::pair{".b", hits_b}}) {
    const std::string metric = "syntactic." + way + half;
    profile.Tallies(metric)[0].Add(hits, cases);
    profile.baselines[metric + ".offset.-1"].Add(offset, cases);
    profile.baselines[metric + ".offset.2"].Add(1, cases);
  }
}

TEST(Roles, SyntacticHeadsBeatTheBestOffsetOnBothHalves) {
  Profile profile = OneHead();
  PutRelation(profile, "nsubj.up", 80, 70, 40, 100);   // holds on both
  PutRelation(profile, "obj.up", 80, 45, 40, 100);     // chosen, not confirmed
  PutRelation(profile, "det.down", 45, 90, 40, 100);   // not chosen
  PutRelation(profile, "amod.up", 50, 50, 40, 60);     // too few cases
  PutRelation(profile, "case.down", 60, 60, 40, 100);  // one way weaker
  PutRelation(profile, "case.up", 95, 95, 40, 100);
  const auto roles = AssignRoles(profile)[0].roles;
  ASSERT_EQ(roles.size(), 2u);
  EXPECT_EQ(roles[0].name, "syntactic(case)");
  EXPECT_DOUBLE_EQ(roles[0].score, .95);
  EXPECT_THAT(roles[0].evidence, HasSubstr("to governor"));
  EXPECT_EQ(roles[1].name, "syntactic(nsubj)");
  EXPECT_DOUBLE_EQ(roles[1].score, .7);
  EXPECT_THAT(roles[1].evidence, HasSubstr("best offset -1 .40"));
}

TEST(Roles, CoreferenceBeatsTheBetterBaseline) {
  Profile profile = OneHead();
  profile.Tallies("coreference")[0].Add(68, 100);
  profile.baselines["coreference.nearest"].Add(40, 100);
  profile.baselines["coreference.same-word"].Add(60, 100);
  EXPECT_THAT(Names(profile), ElementsAre());
  PutSpread(profile, "coreference", .74, .01, 8);
  const auto roles = AssignRoles(profile)[0].roles;
  ASSERT_EQ(roles.size(), 1u);
  EXPECT_EQ(roles[0].evidence, "nearest .40, same-word .60");
}

TEST(Roles, CrossAttentionHasItsOwnRoles) {
  Profile profile = OneHead(AttentionKind::kCross);
  Put(profile, "monotone", .9);
  Put(profile, "monotone.chance", .2);
  Put(profile, "previous", .9);
  profile.Tallies("translation")[0].Add(50, 100);
  profile.baselines["translation.diagonal"].Add(45, 100);
  EXPECT_THAT(Names(profile), ElementsAre("monotone"));
}

TEST(Roles, JsonHoldsRolesAndMetricsAndNoNumberThatIsNone) {
  Profile profile = OneHead();
  Put(profile, "self", .1);
  profile.Tallies("first")[0].Add(9, 10);
  PutRelation(profile, "nsubj.up", 1, 1, 1, 10);
  const auto json = RolesJson(profile, AssignRoles(profile));
  EXPECT_EQ(json["model"], "small");
  const auto& head = json["heads"][0];
  EXPECT_EQ(head["kind"], "self");
  EXPECT_EQ(head["roles"][0]["name"], "first-token");
  EXPECT_EQ(head["roles"][0]["score"], .9);
  EXPECT_TRUE(head["roles"][0]["low"].is_null()) << "one sequence only";
  EXPECT_EQ(head["roles"][0]["sink_excluded"], false);
  EXPECT_EQ(head["metrics"]["self"]["count"], 1000);
  EXPECT_FALSE(head["metrics"].contains("syntactic.nsubj.up.a"));
}

TEST(Roles, WordsTellThemApart) {
  std::set<std::string> words, signs, sentences;
  std::set<char> letters;
  for (const RoleRule& rule : RoleRules()) {
    EXPECT_LE(std::string(rule.word).size(), 6u) << rule.role;
    EXPECT_EQ(std::string(rule.sign).size(), 2u) << rule.role;
    EXPECT_TRUE(std::isupper(rule.letter)) << rule.role;
    EXPECT_STRNE(rule.family, "") << rule.role;
    words.insert(rule.word);
    signs.insert(rule.sign);
    sentences.insert(rule.says);
    letters.insert(rule.letter);
  }
  const size_t roles = RoleRules().size();
  EXPECT_EQ(words.size(), roles);
  EXPECT_EQ(signs.size(), roles);
  EXPECT_EQ(sentences.size(), roles);
  EXPECT_EQ(letters.size(), roles);
}

}  // namespace
}  // namespace headwise::roles_test
