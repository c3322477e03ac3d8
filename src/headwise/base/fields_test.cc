#include "headwise/base/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headwise {
namespace {

struct Config {
  int64_t heads = 8;
  bool bias = false;
  std::vector<int64_t> counts = {1, 8};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("heads", self.heads, "attention heads");
    visit("bias", self.bias, "add a bias");
    visit("counts", self.counts, "head counts");
  }
};

TEST(FieldsTest, GoesToJsonAndBack) {
  Config config{.heads = 3, .bias = true, .counts = {2}};
  EXPECT_EQ(FieldsToJson(config).dump(),
            R"({"heads":3,"bias":true,"counts":[2]})");
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

}  // namespace
}  // namespace headwise
