// Whole tokenizers, written out small: each kind of file, and what it says
// about files that are wrong. The rules themselves are held against Hugging
// Face's library in golden_test.cc.
#include "headwise/tokenizer/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/base/json.h"
#include "headwise/error.h"

namespace headwise::tokenizer_json_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A tokenizer.json with the given parts; absent ones are null.
std::string File(const Json& parts) {
  Json file = {{"version", "1.0"},
               {"added_tokens", Json::array()},
               {"model",
                {{"type", "WordLevel"},
                 {"vocab", {{"[UNK]", 0}, {"a", 1}, {"b", 2}}},
                 {"unk_token", "[UNK]"}}}};
  if (!parts.empty()) file.update(parts);
  return file.dump();
}

std::unique_ptr<Tokenizer> Make(const Json& parts) {
  return ParseTokenizerJson(File(parts), "t.json");
}

Json Added(const char* content, int id, Json flags = Json::object()) {
  Json token = {{"content", content},
                {"id", id},
                {"special", true},
                {"lstrip", false},
                {"rstrip", false}};
  token.update(flags);
  return token;
}

std::string Complaint(const Json& parts) {
  try {
    Make(parts);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("t.json"));
    return error.what();
  }
  return "";
}

TEST(TokenizerJson, BpeJoinsTheFirstLearntPairFirst) {
  const auto tokenizer = Make(
      {{"model",
        {{"type", "BPE"},
         {"vocab",
          {{"a", 0}, {"b", 1}, {"c", 2}, {"bc", 3}, {"ab", 4}, {"abc", 5}}},
         {"merges", {"b c", "a b", "a bc"}}}}});
  EXPECT_THAT(tokenizer->Encode("abc").ids, ElementsAre(5));
  EXPECT_THAT(tokenizer->Encode("abab").ids, ElementsAre(4, 4));
  EXPECT_THAT(tokenizer->Encode("bcab").ids, ElementsAre(3, 4));
  EXPECT_EQ(tokenizer->vocab_size(), 6);
}

TEST(TokenizerJson, UnknownCharactersFollowTheModelsRule) {
  Json model = {{"type", "BPE"},
                {"vocab", {{"?", 0}, {"a", 1}, {"<0xC3>", 2}, {"<0xBC>", 3}}},
                {"merges", Json::array()},
                {"unk_token", "?"}};
  EXPECT_THAT(Make({{"model", model}})->Encode("axya").ids,
              ElementsAre(1, 0, 0, 1));
  model["fuse_unk"] = true;
  EXPECT_THAT(Make({{"model", model}})->Encode("axya").ids,
              ElementsAre(1, 0, 1));
  model["byte_fallback"] = true;
  const Encoding bytes = Make({{"model", model}})->Encode("aü");
  EXPECT_THAT(bytes.ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(bytes.spans,
              ElementsAre(TextSpan{0, 1}, TextSpan{1, 3}, TextSpan{1, 3}));
}

TEST(TokenizerJson, AddedTokensAreFoundBeforeAnythingElse) {
  const auto tokenizer =
      Make({{"pre_tokenizer", {{"type", "Whitespace"}}},
            {"added_tokens",
             {Added("<m>", 7, {{"lstrip", true}}), Added("<mm>", 8),
              Added("zz", 9, {{"single_word", true}, {"special", false}})}}});
  const Encoding found = tokenizer->Encode("a  <m>b<mm>zz zzz");
  EXPECT_THAT(found.ids, ElementsAre(1, 7, 2, 8, 9, 0));
  EXPECT_EQ(found.spans[1], (TextSpan{1, 6}));
  EXPECT_EQ(found.spans[5], (TextSpan{14, 17}));
  EXPECT_EQ(tokenizer->vocab_size(), 10);
  EXPECT_TRUE(tokenizer->IsSpecial(8));
  EXPECT_FALSE(tokenizer->IsSpecial(9));
  EXPECT_EQ(tokenizer->Decode(found.ids), "a b zz [UNK]");
  EXPECT_EQ(tokenizer->Decode(found.ids, {.skip_special_tokens = false}),
            "a <m> b <mm> zz [UNK]");
}

TEST(TokenizerJson, NormalizedAddedTokensAreFoundAfterNormalising) {
  const auto tokenizer = Make({{"normalizer", {{"type", "Lowercase"}}},
                               {"added_tokens",
                                {Added("Token", 5, {{"normalized", true}}),
                                 Added("Plain", 6, {{"normalized", false}})}}});
  EXPECT_THAT(tokenizer->Encode("TOKENaPlainPLAIN").ids,
              ElementsAre(5, 1, 6, 0));
}

TEST(TokenizerJson, TemplatesSurroundOneTextAndTwo) {
  const Json special = {
      {"[C]", {{"id", "[C]"}, {"ids", {10}}, {"tokens", {"[C]"}}}},
      {"[S]", {{"id", "[S]"}, {"ids", {11, 12}}, {"tokens", {"[S]", "x"}}}}};
  const auto add = [](const char* id, int type) {
    return Json{{"SpecialToken", {{"id", id}, {"type_id", type}}}};
  };
  const auto text = [](const char* id, int type) {
    return Json{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  const auto tokenizer = Make(
      {{"post_processor",
        {{"type", "TemplateProcessing"},
         {"single", {add("[C]", 0), text("A", 0)}},
         {"pair", {text("A", 0), add("[S]", 0), text("B", 1), add("[C]", 1)}},
         {"special_tokens", special}}}});
  EXPECT_THAT(tokenizer->Encode("a").ids, ElementsAre(10, 1));
  EXPECT_THAT(tokenizer->Encode("a").added, ElementsAre(1, 0));
  EXPECT_THAT(tokenizer->Encode("a", {.add_special_tokens = false}).ids,
              ElementsAre(1));
  const Encoding pair = tokenizer->EncodePair("a", "b");
  EXPECT_THAT(pair.ids, ElementsAre(1, 11, 12, 2, 10));
  EXPECT_THAT(pair.segments, ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(tokenizer->Encode("").ids, ElementsAre(10));
}

TEST(TokenizerJson, SpansPointIntoTheOriginalText) {
  const auto tokenizer =
      Make({{"normalizer",
             {{"type", "Sequence"},
              {"normalizers", {{{"type", "NFKC"}}, {{"type", "Lowercase"}}}}}},
            {"pre_tokenizer", {{"type", "Whitespace"}}}});
  // The ligature becomes two letters, the Ångström sign a shorter one.
  const std::string text = "\uFB01x \u212B A";
  const Encoding found = tokenizer->Encode(text);
  EXPECT_THAT(found.ids, ElementsAre(0, 0, 1));
  EXPECT_THAT(found.spans,
              ElementsAre(TextSpan{0, 4}, TextSpan{5, 8}, TextSpan{9, 10}));
}

TEST(TokenizerJson, EmptyTextHasNoTokens) {
  EXPECT_EQ(Make({})->Encode("").size(), 0u);
  EXPECT_EQ(Make({})->Decode({}), "");
}

TEST(TokenizerJson, TextThatIsNotUtf8IsRefusedWithItsPlace) {
  const auto tokenizer = Make({});
  for (const char* text : {"ab\xff", "ab\xc3", "ab\xed\xa0\x80", "ab\xc0\x80",
                           "ab\xf4\x90\x80\x80"}) {
    try {
      tokenizer->Encode(text);
      ADD_FAILURE() << "took bytes that are not UTF-8";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr("another byte at 2"));
    }
  }
}

TEST(TokenizerJson, DecodePassesOverIdsThatStandForNothing) {
  const std::vector<TokenId> ids = {1, -5, 999, 2};
  EXPECT_EQ(Make({})->Decode(ids), "a b");
  EXPECT_FALSE(Make({})->Token(-1).has_value());
  EXPECT_FALSE(Make({})->Id("nowhere").has_value());
  EXPECT_EQ(Make({})->Id("b"), 2);
  EXPECT_EQ(Make({})->Token(2), "b");
}

TEST(TokenizerJson, SaysWhichKeyIsWrong) {
  const auto bpe = [](Json vocab, Json merges) {
    return Json{{"model",
                 {{"type", "BPE"},
                  {"vocab", std::move(vocab)},
                  {"merges", std::move(merges)}}}};
  };
  const Json ab = {{"a", 0}, {"b", 1}};
  EXPECT_THAT(Complaint(bpe(ab, {"a b"})),
              HasSubstr("model: merges: 0] expected tokens of the vocabulary; "
                        "found \"ab\""));
  EXPECT_THAT(Complaint(bpe(ab, {"a x"})), HasSubstr("found \"x\""));
  EXPECT_THAT(Complaint(bpe(ab, {"ab"})), HasSubstr("two tokens"));
  EXPECT_THAT(Complaint(bpe(ab, {7})), HasSubstr("merges: 0"));
  EXPECT_THAT(Complaint(bpe({{"a", -1}}, Json::array())),
              HasSubstr("vocab: a]"));
  EXPECT_THAT(Complaint(bpe({{"a", 1e9}}, Json::array())),
              HasSubstr("vocab: a]"));
  EXPECT_THAT(Complaint(bpe(Json::array(), Json::array())),
              HasSubstr("model: vocab]"));
  EXPECT_THAT(Complaint({{"model", {{"type", "LSTM"}, {"vocab", ab}}}}),
              HasSubstr("BPE, WordPiece, Unigram or WordLevel"));
  EXPECT_THAT(Complaint({{"model", {{"type", "WordPiece"}, {"vocab", ab}}}}),
              HasSubstr("[UNK]"));
  EXPECT_THAT(Complaint({{"normalizer", {{"type", "Rot13"}}}}),
              HasSubstr("normalizer: type] expected NFC"));
  EXPECT_THAT(Complaint({{"pre_tokenizer", {{"type", "x"}}}}),
              HasSubstr("pre_tokenizer: type]"));
  EXPECT_THAT(Complaint({{"post_processor", {{"type", "x"}}}}),
              HasSubstr("post_processor: type]"));
  EXPECT_THAT(Complaint({{"decoder", {{"type", "x"}}}}),
              HasSubstr("decoder: type]"));
  EXPECT_THAT(Complaint({{"added_tokens", {{{"content", "x"}}}}}),
              HasSubstr("added_tokens: 0]"));
  EXPECT_THAT(Complaint({{"model", 3}}), HasSubstr("model]"));
}

TEST(TokenizerJson, ExpressionsThatCannotRunAreRefused) {
  const auto split = [](const char* expression) {
    return Json{{"pre_tokenizer",
                 {{"type", "Split"},
                  {"pattern", {{"Regex", expression}}},
                  {"behavior", "Isolated"}}}};
  };
  for (const Json& nothing : {Json(""), Json{{"String", ""}}}) {
    EXPECT_THAT(Complaint({{"pre_tokenizer",
                            {{"type", "Split"},
                             {"pattern", nothing},
                             {"behavior", "Isolated"}}}}),
                HasSubstr("a text to look for"));
  }
  EXPECT_THAT(Complaint(split("(unclosed")), HasSubstr("pattern: Regex]"));
  EXPECT_THAT(Complaint(split("[a[bc]]")), HasSubstr("sets inside sets"));
  EXPECT_THAT(Complaint(split("[a&&b]")), HasSubstr("sets inside sets"));
  // Backtracking without end stops at a limit.
  const auto slow = Make(split("(a+)+$"));
  EXPECT_THROW(slow->Encode(std::string(64, 'a') + "b"), Error);
}

TEST(TokenizerJson, EveryTruncationIsRefused) {
  const std::string good = File({{"normalizer", {{"type", "NFC"}}}});
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(ParseTokenizerJson(good.substr(0, size), "t"), Error) << size;
  }
}

}  // namespace
}  // namespace headwise::tokenizer_json_test
