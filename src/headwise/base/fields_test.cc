#include "headwise/base/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headwise/error.h"

namespace headwise::fields_test {
namespace {

enum class Kind { kSoft, kHard };
constexpr std::array<const char*, 2> FieldWords(Kind) {
  return {"soft", "hard"};
}
inline constexpr Kind kBothKinds[] = {Kind::kHard, Kind::kSoft};
constexpr std::array<FieldGroup<Kind>, 2> FieldGroups(Kind) {
  return {{{"both", kBothKinds}, {"none", {}}}};
}

struct Config {
  int64_t heads = 8;
  bool bias = false;
  std::vector<int64_t> counts = {1, 8};
  uint64_t seed = 1;
  int threads = 1;
  double share = 0;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("heads", self.heads, "attention heads");
    visit("bias", self.bias, "add a bias");
    visit("counts", self.counts, "head counts");
    visit("seed", self.seed, "of random numbers");
    visit("threads", self.threads, "of the pool");
    visit("share", self.share, "of something");
  }
};

TEST(FieldsTest, GoesToJsonAndBack) {
  Config config{.heads = 3, .bias = true, .counts = {2}};
  EXPECT_EQ(FieldsToJson(config).dump(),
            R"({"heads":3,"bias":true,"counts":[2],"seed":1,"threads":1,)"
            R"("share":0.0})");
  Config back;
  FieldsFromJson(FieldsToJson(config), back, "test");
  EXPECT_EQ(back.heads, 3);
  EXPECT_TRUE(back.bias);
  EXPECT_THAT(back.counts, testing::ElementsAre(2));
}

struct Job {
  int64_t rows = 1;
  std::optional<double> share = {};
  std::vector<int64_t> steps = {};
  std::vector<Kind> kinds = {Kind::kSoft};
  std::optional<std::filesystem::path> file = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("rows", self.rows, "sampled", AtLeast(1));
    visit("share", self.share, "that stays",
          FieldRange{.least = 0, .most = 1, .above = true});
    visit("steps", self.steps, "of the work", Between(2, 1000000));
    visit("kinds", self.kinds, "of heads");
    visit("file", self.file, "to read");
  }
};

TEST(FieldsTest, WordsOptionalsAndPathsGoToJsonAndBack) {
  const Job job{.kinds = {Kind::kHard}, .file = "a/b"};
  const Json json = FieldsToJson(job);
  EXPECT_EQ(json.dump(),
            R"({"rows":1,"share":null,"steps":[],"kinds":["hard"],)"
            R"("file":"a/b"})");
  Job back{.share = 0.5};
  FieldsFromJson(json, back, "test");
  EXPECT_FALSE(back.share);
  EXPECT_EQ(back.file, "a/b");
  EXPECT_THAT(back.kinds, testing::ElementsAre(Kind::kHard));
}

TEST(FieldsTest, AWordMayStandForSeveralValues) {
  Job job;
  FieldsFromJson({{"kinds", {"both", "none", "hard"}}}, job, "test");
  EXPECT_THAT(job.kinds,
              testing::ElementsAre(Kind::kHard, Kind::kSoft, Kind::kHard));
}

TEST(FieldsTest, NamesTheNearestKnownWord) {
  Job job;
  try {
    FieldsFromJson({{"kinds", {"soft", "herd"}}}, job, "test");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[test] expected kinds: soft, hard, both or none; found "
                 "\"herd\"; did you mean hard?");
  }
}

std::string WhyNot(const Job& job) {
  try {
    CheckFields(job, "similar");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(FieldsTest, ChecksRanges) {
  EXPECT_EQ(WhyNot({}), "");
  EXPECT_EQ(WhyNot({.rows = 0}),
            "[similar] expected rows of at least 1; found 0");
  EXPECT_EQ(WhyNot({.share = 0}),
            "[similar] expected share above 0 and up to 1; found 0");
  EXPECT_EQ(WhyNot({.share = NAN}),
            "[similar] expected share above 0 and up to 1; found nan");
  EXPECT_EQ(WhyNot({.share = 1, .steps = {2, 1}}),
            "[similar] expected steps from 2 to 1000000; found 1");
}

TEST(FieldsTest, LeavesUnnamedFields) {
  Config config{.heads = 3};
  FieldsFromJson({{"bias", true}}, config, "test");
  EXPECT_EQ(config.heads, 3);
  EXPECT_TRUE(config.bias);
}

TEST(FieldsTest, NamesTheNearestKnownField) {
  Config config;
  try {
    FieldsFromJson({{"haeds", 3}}, config, "test");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean \"heads\"?"));
  }
}

TEST(FieldsTest, RefusesAWrongType) {
  Config config;
  EXPECT_THROW(FieldsFromJson({{"heads", "many"}}, config, "test"), Error);
}

TEST(FieldsTest, RefusesNumbersThatAFieldCannotHold) {
  Config config;
  for (const char* json :
       {R"({"heads": 2.5})", R"({"heads": true})", R"({"heads": 1e30})",
        R"({"heads": 9223372036854775808})", R"({"bias": 1})",
        R"({"counts": [1, 2.5]})", R"({"counts": 1})", R"({"seed": -1})",
        R"({"threads": 2147483648})", R"({"share": true})"}) {
    EXPECT_THROW(FieldsFromJson(Json::parse(json), config, "test"), Error)
        << json;
  }
  FieldsFromJson(Json::parse(
                     R"({"heads": 1e3, "seed": 18446744073709551615,
                         "threads": -2, "share": 1, "counts": []})"),
                 config, "test");
  EXPECT_EQ(config.heads, 1000);
  EXPECT_EQ(config.seed, UINT64_MAX);
  EXPECT_EQ(config.threads, -2);
  EXPECT_EQ(config.share, 1);
}

}  // namespace
}  // namespace headwise::fields_test
