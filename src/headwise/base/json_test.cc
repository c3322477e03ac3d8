#include "headwise/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "headwise/error.h"

namespace headwise::json_test {
namespace {

using testing::HasSubstr;

// What parsing says, or "" where it succeeds.
std::string Complaint(std::string_view text, JsonOptions options = {}) {
  try {
    ParseJson(text, "f.json", options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    return error.what();
  }
  return "";
}

TEST(Json, ParsesWhatIsValid) {
  const Json value = ParseJson(R"({"a": [1, "ü", null]})", "f.json");
  EXPECT_EQ(value["a"][1], "ü");
}

TEST(Json, NamesTheFileAndTheByteOfBadSyntax) {
  EXPECT_THAT(Complaint(R"({"a": })"), HasSubstr("[f.json: byte 6]"));
  EXPECT_THAT(Complaint(""), HasSubstr("[f.json: byte 0]"));
  EXPECT_THAT(Complaint("{} {}"), HasSubstr("[f.json: byte 3]"));
  EXPECT_THAT(Complaint("{\"a\": \"\xff\"}"), HasSubstr("UTF-8"));
  EXPECT_THAT(Complaint("[1e999]"), HasSubstr("f.json"));
}

TEST(Json, AllowsDepth128AndNoMore) {
  const auto nested = [](int depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(Complaint(nested(kMaxJsonDepth)), "");
  EXPECT_THAT(Complaint(nested(kMaxJsonDepth + 1)),
              HasSubstr("nesting deeper than 128"));
  EXPECT_THAT(Complaint(nested(1'000'000)), HasSubstr("[f.json: byte 129]"));
}

TEST(Json, RefusesRepeatedKeysOnlyWhereAsked) {
  const std::string_view text = R"({"a": 1, "b": {"a": 2}, "a": 3})";
  EXPECT_EQ(Complaint(text), "");
  EXPECT_THAT(Complaint(text, {.unique_keys = true}),
              HasSubstr(R"(the key "a" twice)"));
  EXPECT_EQ(Complaint(R"({"a": 1, "b": [{"a": 2}, {"a": 3}]})",
                      {.unique_keys = true}),
            "");
}

TEST(JsonCursor, NamesThePlaceOfAWrongType) {
  const Json value = ParseJson(R"({"model": {"merges": ["a", 7]}})", "f");
  const JsonCursor root(value, "f");
  try {
    root["model"]["merges"].Items()[1].String();
    FAIL() << "took a number for a string";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[f: model: merges: 1] expected a string; found 7");
  }
  EXPECT_THROW(root["missing"], Error);
  EXPECT_THROW(root["model"].Bool(), Error);
}

// Quadratic in them, this would take an hour.
TEST(Json, ManySmallObjectsTakeNoLongerThanTheirBytes) {
  std::string text = "[{}";
  for (int i = 0; i < 500'000; ++i) text += ",{}";
  EXPECT_EQ(ParseJson(text + "]", "f").size(), 500'001u);
}

TEST(Json, TheLastOfEqualKeysCounts) {
  const Json value = ParseJson(R"({"a": {"b": 1}, "a": [2, {"c": 3}]})", "f");
  EXPECT_EQ(value, Json::parse(R"({"a": [2, {"c": 3}]})"));
}

TEST(Json, PairsMakeAnObjectAndOtherListsAnArray) {
  const Json value = {{"a", 1}, {"b", {1, 2.5, "x", nullptr, true}}};
  EXPECT_EQ(value.dump(), R"({"a":1,"b":[1,2.5,"x",null,true]})");
  EXPECT_EQ(Json({"a", "b"}).dump(), R"(["a","b"])");
  EXPECT_EQ(Json(std::vector<float>{0.5f}).dump(), "[0.5]");
  EXPECT_EQ(Json(std::map<std::string, int>{{"k", 1}}).dump(), R"({"k":1})");
}

TEST(Json, ObjectsKeepTheirOrderAndAreEqualInAny) {
  Json value;
  value["z"] = 1;
  value["a"] = 2;
  EXPECT_EQ(value.dump(), R"({"z":1,"a":2})");
  EXPECT_EQ(value, (Json{{"a", 2}, {"z", 1}}));
  value.erase("z");
  EXPECT_EQ(value.dump(), R"({"a":2})");
}

TEST(Json, FindsEveryKeyOfSmallAndLargeObjects) {
  Json value = Json::object();
  for (int i = 0; i < 2000; ++i) {
    value["k" + std::to_string(i)] = i;
    ASSERT_EQ(value["k0"], 0);
    ASSERT_EQ(value.size(), static_cast<size_t>(i) + 1);
  }
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(value.at("k" + std::to_string(i)), i);
  }
  EXPECT_FALSE(value.contains("k2000"));
  value.erase("k7");
  EXPECT_FALSE(value.contains("k7"));
  EXPECT_EQ(value.at("k1999"), 1999);
  const Json copy = value;
  EXPECT_EQ(copy, value);
}

TEST(Json, RefusesWhatATypeCannotHold) {
  EXPECT_THROW(Json(2.5).get<int>(), Error);
  EXPECT_THROW(Json(-1).get<uint64_t>(), Error);
  EXPECT_THROW(Json(int64_t{1} << 40).get<int>(), Error);
  EXPECT_THROW(Json(UINT64_MAX).get<int64_t>(), Error);
  EXPECT_THROW(Json("7").get<int>(), Error);
  EXPECT_THROW(Json(true).get<double>(), Error);
  EXPECT_THROW(Json(7).get<std::string>(), Error);
  EXPECT_THROW(Json(7).at("key"), Error);
  EXPECT_THROW(Json::array().at(size_t{0}), Error);
  EXPECT_EQ(Json(1e3).get<int>(), 1000);
  EXPECT_EQ(Json(UINT64_MAX).get<uint64_t>(), UINT64_MAX);
}

TEST(Json, ComparesNumbersByValue) {
  EXPECT_EQ(Json(1), Json(1u));
  EXPECT_EQ(Json(1), Json(1.0));
  EXPECT_NE(Json(-1), Json(UINT64_MAX));
  EXPECT_NE(Json(1), Json(true));
}

TEST(Json, WritesWhatIsNotUtf8AndNotFinite) {
  EXPECT_EQ(Json("a\xff").dump(), "\"a\xef\xbf\xbd\"");
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_THROW(DumpUtf8(Json("a\xff"), "here"), Error);
}

TEST(JsonCursor, ReadsNumbersWithinBoundsOnly) {
  const Json value =
      ParseJson(R"({"n": 5, "big": 18446744073709551615, "x": 1.5})", "f");
  const JsonCursor root(value, "f");
  EXPECT_EQ(root["n"].Int(0, 5), 5);
  EXPECT_THROW(root["n"].Int(6, 9), Error);
  EXPECT_THROW(root["big"].Int(0, INT64_MAX), Error);
  EXPECT_THROW(root["x"].Int(0, 5), Error);
  EXPECT_EQ(root["x"].Number(), 1.5);
}

TEST(JsonCursor, GivesTheDefaultForAbsentAndNullMembers) {
  const Json value = ParseJson(R"({"a": null, "b": true})", "f");
  const JsonCursor root(value, "f");
  EXPECT_TRUE(root.Bool("a", true));
  EXPECT_TRUE(root.Bool("b", false));
  EXPECT_EQ(root.String("c", "x"), "x");
  EXPECT_EQ(root.Int("c", 0, 9, 4), 4);
}

}  // namespace
}  // namespace headwise::json_test
