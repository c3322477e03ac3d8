#include "headwise/base/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/error.h"

namespace headwise::fields_test {
namespace {

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
