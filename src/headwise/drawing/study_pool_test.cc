// Records of several seeds pool, and what does not belong together does not.
#include "headwise/drawing/study_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "headwise/error.h"
#include "headwise/study/support/trained.h"

namespace headwise::study_pool_test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kFresh[] = {11, 12, 13, 14, 15};
constexpr StudyChange kChanged[] = {{"a", "b", "c", "d"}};

Study Sample() {
  return {.name = "sample",
          .claim = "A claim.",
          .expectation = "an expectation",
          .kind = StudyKind::kHypothesis,
          .run = nullptr,
          .trained = true,
          .history = kChanged,
          .fresh_seeds = kFresh};
}

Json Record(const std::vector<uint64_t>& seeds,
            const std::vector<double>& values) {
  const Study study = Sample();
  StudyResult result;
  result.kind = study.kind;
  result.seeds = seeds;
  result.seconds = 2;
  result.steps = {"1 or 2 steps"};
  result.text = {"a text", "0123", "novels"};
  result.AtLeast("share", OverSeeds(values, kShare), 0.5);
  result.Report("told", OverSeeds(values));
  result.InformOnly();
  result.AtMost("given", 1, 2);
  result.rules = RulesOf(study, result, true);
  Json record = StudyJson(study, result);
  record["machine"] = seeds[0] < 14 ? "one" : "another";
  return record;
}

std::string Refusal(const std::vector<Json>& records) {
  try {
    PoolRecords(Sample(), records);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PoolRecordsTest, IsTheRecordOfAllSeedsAtOnce) {
  const std::vector<Json> parts = {Record({11, 12, 13}, {.7, .8, .9}),
                                   Record({14, 15}, {1, .75})};
  EXPECT_EQ(parts[1].at("figures").at("share").at("verdict"), "UNDECIDED");
  const Json pooled = PoolRecords(Sample(), parts);
  const Json whole = Record({11, 12, 13, 14, 15}, {.7, .8, .9, 1, .75});
  for (const char* same : {"figures", "seeds", "verdict", "hash", "text"}) {
    EXPECT_EQ(pooled.at(same), whole.at(same)) << same;
  }
  EXPECT_EQ(pooled.at("figures").at("share").at("verdict"), "HELD");
  EXPECT_EQ(pooled.at("seconds"), 4);
  EXPECT_EQ(pooled.at("machine"), "one; another");
}

TEST(PoolRecordsTest, RefusesWhatDoesNotBelongTogether) {
  const Json first = Record({11, 12}, {.7, .8});
  EXPECT_THAT(Refusal({first, Record({12, 13}, {.7, .8})}),
              HasSubstr("12 twice"));
  Json other = Record({13, 14}, {.7, .8});
  other["hash"] = "ff";
  EXPECT_THAT(Refusal({first, other}), HasSubstr("one hash"));
  other = Record({13, 14}, {.7, .8});
  other["text"]["hash"] = "ff";
  EXPECT_THAT(Refusal({first, other}), HasSubstr("one text"));
  other = Record({13, 14}, {.7, .8});
  other["figures"]["share"].erase("values");
  EXPECT_THAT(Refusal({first, other}), HasSubstr("values of each seed"));
}

}  // namespace
}  // namespace headwise::study_pool_test
