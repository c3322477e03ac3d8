#include "headwise/tokenizer/piece_text.h"

#include <gtest/gtest.h>

#include "headwise/tokenizer/tokenizer_json.h"

namespace headwise::piece_text_test {
namespace {

// Bytes as characters, "è" (e8) and "è¹" (e8 b9) among them, and "Ġthe".
std::unique_ptr<Tokenizer> ByteLevel() {
  return ParseTokenizerJson(R"({"added_tokens": [
      {"id": 0, "content": "<bos>", "special": true}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "merges": ["è ¹", "t h"],
      "vocab": {"<bos>": 0, "è": 1, "¹": 2, "è¹": 3, "Ġ": 4, "t": 5, "h": 6,
                "th": 7, "Ø": 8, "ī": 9}}})",
                            "t.json");
}

TEST(PieceTextTest, PartsOfCharactersAreShownAsBytes) {
  EXPECT_EQ(ShowBytes("a\xE8\xB9"), "a⟨e8 b9⟩");
  EXPECT_EQ(ShowBytes("\x89 ok \xFF"), "⟨89⟩ ok ⟨ff⟩");
  EXPECT_EQ(ShowBytes("日本"), "日本");
  const auto tokenizer = ByteLevel();
  EXPECT_EQ(PieceText(*tokenizer, 3), "⟨e8 b9⟩");
  EXPECT_EQ(PieceText(*tokenizer, 4), " ");
  EXPECT_EQ(PieceText(*tokenizer, 7), "th");
  EXPECT_EQ(PieceText(*tokenizer, 0), "<bos>");
  EXPECT_EQ(PieceText(*tokenizer, 99), "");
}

TEST(PieceTextTest, FallbackBytesAndSpaceMarksReadAsText) {
  const auto tokenizer = ParseTokenizerJson(
      R"({"decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
          "model": {"type": "BPE", "merges": [], "byte_fallback": true,
            "vocab": {"<0xE8>": 0, "<0x0A>": 1, "▁the": 2}}})",
      "t.json");
  EXPECT_EQ(PieceText(*tokenizer, 0), "⟨e8⟩");
  EXPECT_EQ(PieceText(*tokenizer, 1), "\n");
  EXPECT_EQ(PieceText(*tokenizer, 2), " the");
}

TEST(UnknownLettersTest, AnotherScriptIsUnknown) {
  const auto tokenizer = ByteLevel();
  EXPECT_EQ(UnknownLetters(*tokenizer, "th th"), 0);
  EXPECT_EQ(UnknownLetters(*tokenizer, "th 12, 3!"), 0);
  // U+0609 is d8 89: known bytes, no known letter; 蹦 is e8 b9 a6.
  EXPECT_EQ(UnknownLetters(*tokenizer, "蹦蹦"), 1);
  EXPECT_EQ(UnknownLetters(*tokenizer, "th 蹦蹦"), 0.5);
  EXPECT_EQ(UnknownLetters(*tokenizer, "..."), 0);
}

TEST(UnknownLettersTest, TheUnknownTokenKnowsNothing) {
  const auto tokenizer = ParseTokenizerJson(
      R"({"pre_tokenizer": {"type": "Whitespace"},
          "model": {"type": "WordPiece", "unk_token": "[UNK]",
            "vocab": {"[UNK]": 0, "cat": 1}}})",
      "t.json");
  EXPECT_EQ(UnknownLetters(*tokenizer, "cat кот"), 0.5);
}

}  // namespace
}  // namespace headwise::piece_text_test
