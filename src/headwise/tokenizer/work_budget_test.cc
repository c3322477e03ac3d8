// Files that would make much of little: each is refused in bounded time and
// memory, and says what was too much.
#include "headwise/tokenizer/work_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/tokenizer/pattern.h"
#include "headwise/tokenizer/tokenizer_json.h"

namespace headwise::work_budget_test {
namespace {

using testing::HasSubstr;

constexpr const char* kLetters =
    R"({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []})";

// A tokenizer of a and b with one more part.
std::unique_ptr<Tokenizer> With(const std::string& part,
                                const std::string& json) {
  return ParseTokenizerJson(
      "{\"" + part + "\": " + json + ", \"model\": " + kLetters + "}",
      "t.json");
}

// [rule, rule, …]
std::string Repeated(const std::string& rule, int count) {
  std::string list = "[" + rule;
  for (int i = 1; i < count; ++i) list += ", " + rule;
  return list + "]";
}

template <typename Run>
std::string MessageOf(Run run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kGrows =
    R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaa"})";

TEST(WorkBudgetTest, ReplacementsMayNotMakeMoreAndMore) {
  const auto tokenizer =
      With("normalizer", R"({"type": "Sequence", "normalizers": )" +
                             Repeated(kGrows, 40) + "}");
  EXPECT_THAT(MessageOf([&] { tokenizer->Encode("a"); }),
              HasSubstr("at most 4128 bytes of a text of 1; found more"));
}

TEST(WorkBudgetTest, SequencesWithinSequencesShareOneBudget) {
  std::string rules = Repeated(kGrows, 4);
  for (int i = 0; i < 10; ++i) {
    rules = "[" + std::string(R"({"type": "Sequence", "normalizers": )") +
            rules + "}, " + kGrows + "]";
  }
  const auto tokenizer = With(
      "normalizer", R"({"type": "Sequence", "normalizers": )" + rules + "}");
  EXPECT_THAT(MessageOf([&] { tokenizer->Encode("aa"); }),
              HasSubstr("at most 4160 bytes"));
}

TEST(WorkBudgetTest, PrefixesMayNotMakeMoreAndMore) {
  const auto tokenizer = With(
      "pre_tokenizer",
      R"({"type": "Sequence", "pretokenizers": )" +
          Repeated(R"({"type": "ByteLevel", "use_regex": false})", 60) + "}");
  EXPECT_THAT(MessageOf([&] { tokenizer->Encode("ab"); }),
              HasSubstr("found more"));
}

TEST(WorkBudgetTest, DecodersMayNotMakeMoreAndMore) {
  const auto tokenizer =
      With("decoder",
           R"({"type": "Sequence", "decoders": )" + Repeated(kGrows, 40) + "}");
  const std::vector<TokenId> ids = {0, 1};
  EXPECT_THAT(MessageOf([&] { tokenizer->Decode(ids); }),
              HasSubstr("found more"));
}

TEST(WorkBudgetTest, TemplatesHoldEachTextOnce) {
  const std::string text = R"({"Sequence": {"id": "A", "type_id": 0}})";
  EXPECT_THAT(MessageOf([&] {
                With("post_processor",
                     R"({"type": "TemplateProcessing", "special_tokens": {},
                         "single": )" +
                         Repeated(text, 1000) + "}");
              }),
              HasSubstr("single] expected each text once"));
}

TEST(WorkBudgetTest, RulesAreCounted) {
  EXPECT_THAT(MessageOf([&] {
                With("normalizer", R"({"type": "Sequence", "normalizers": )" +
                                       Repeated(R"({"type": "NFC"})", 300) +
                                       "}");
              }),
              HasSubstr("normalizer] expected at most 256 rules; found 301"));
}

TEST(WorkBudgetTest, AnExpressionMayNotTryForEver) {
  // Each place takes a while, though none takes for ever.
  std::string text;
  for (int i = 0; i < 4000; ++i) text += std::string(18, 'a') + "b";
  const Pattern slow = Pattern::Regex("(a+)+[cd]", "t.json: Regex");
  EXPECT_THAT(MessageOf([&] { slow.Cut(text); }),
              HasSubstr("s for a text of 76000 bytes; found more"));
  const Pattern slower = Pattern::Regex("(a+)+[cd]", "t.json: Regex");
  EXPECT_THAT(MessageOf([&] { slower.Cut(std::string(64, 'a')); }),
              HasSubstr("match limit"));
}

TEST(WorkBudgetTest, SearchesGoOnBeyondTheirFirstPlaces) {
  // Rare matches, each past the places that one search goes through.
  const std::string gap(50'000, 'x');
  const std::string text = gap + "ab" + gap + "äb" + gap;
  const std::vector<Match> matches = Pattern::Regex("[aä]b", "t").Cut(text);
  ASSERT_EQ(matches.size(), 5u);
  EXPECT_EQ(matches[1].range, (Range{50'000, 50'002}));
  EXPECT_EQ(matches[3].range, (Range{100'002, 100'005}));
  EXPECT_TRUE(matches[3].matched);
}

TEST(WorkBudgetTest, TokensThatAreSoughtEverywhereAreShort) {
  const std::string token(20'000, 'a');
  const Json vocab = {{"[UNK]", 0}, {token, 1}};
  const Json file = {{"model", {{"type", "WordPiece"}, {"vocab", vocab}}}};
  EXPECT_THAT(MessageOf([&] { ParseTokenizerJson(file.dump(), "t.json"); }),
              HasSubstr("vocab] expected tokens of at most 1024 bytes"));
}

TEST(WorkBudgetTest, AWordOfManyPiecesTakesNoTimeToSpeakOf) {
  const Json vocab = {{"[UNK]", 0},
                      {"a", 1},
                      {"##a", 2},
                      {"##" + std::string(1000, 'a') + "b", 3}};
  const Json file = {{"model",
                      {{"type", "WordPiece"},
                       {"vocab", vocab},
                       {"max_input_chars_per_word", 1'000'000}}}};
  const auto tokenizer = ParseTokenizerJson(file.dump(), "t.json");
  EXPECT_EQ(tokenizer->Encode(std::string(20'000, 'a')).size(), 20'000u);
}

TEST(WorkBudgetTest, IdsThatLeaveAlmostAllUnusedAreRefused) {
  EXPECT_THAT(MessageOf([&] {
                ParseTokenizerJson(
                    R"({"model": {"type": "BPE", "merges": [],
                        "vocab": {"a": 0, "b": 16777215}}})",
                    "t.json");
              }),
              HasSubstr("t.json] expected ids below 131080 for 2 tokens; found "
                        "16777215"));
  EXPECT_THAT(MessageOf([&] {
                ParseTokenizerJson(
                    R"({"model": {"type": "BPE", "merges": [], "vocab": {}},
                        "added_tokens": [{"content": "x", "id": 9000000}]})",
                    "t.json");
              }),
              HasSubstr("found 9000000"));
}

}  // namespace
}  // namespace headwise::work_budget_test
