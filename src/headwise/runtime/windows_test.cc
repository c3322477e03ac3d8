#include "headwise/runtime/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/error.h"

namespace headwise::windows_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One token a letter, its byte as id; [1] … [2] around a text.
class Letters : public Tokenizer {
 public:
  Encoding Encode(std::string_view text, EncodeOptions options) const override {
    Encoding encoding;
    const auto add = [&](TokenId id, TextSpan span, uint8_t added) {
      encoding.ids.push_back(id);
      encoding.spans.push_back(span);
      encoding.segments.push_back(0);
      encoding.added.push_back(added);
    };
    if (options.add_special_tokens) add(1, {}, 1);
    for (uint32_t i = 0; i < text.size(); ++i) {
      add(static_cast<unsigned char>(text[i]), {i, i + 1}, 0);
    }
    if (options.add_special_tokens) add(2, {}, 1);
    return encoding;
  }
  Encoding EncodePair(std::string_view first, std::string_view second,
                      EncodeOptions options) const override {
    return Encode(std::string(first) + std::string(second), options);
  }
  std::string Decode(std::span<const TokenId>, DecodeOptions) const override {
    return "";
  }
  TokenId vocab_size() const override { return 256; }
  std::optional<std::string> Token(TokenId) const override { return {}; }
  std::optional<TokenId> Id(std::string_view) const override { return {}; }
  bool IsSpecial(TokenId id) const override { return id < 3; }
};

ModelConfig Config(bool causal) {
  ModelConfig config;
  config.causal = causal;
  config.context = 6;
  config.positions = Positions::kLearned;
  config.bos = causal ? 7 : -1;
  return config;
}

TEST(WindowsTest, EveryWindowIsFramed) {
  const Letters letters;
  const WindowCutter cutter(letters, Config(false));
  const auto windows = cutter.Cut({"x", 3, 0, "abcdefghi"});
  ASSERT_EQ(windows.size(), 2) << "a last token alone is left out";
  EXPECT_THAT(windows[0].source.ids, ElementsAre(1, 'a', 'b', 'c', 'd', 2));
  EXPECT_THAT(windows[1].source.ids, ElementsAre(1, 'e', 'f', 'g', 'h', 2));
  EXPECT_THAT(windows[1].source.added, ElementsAre(1, 0, 0, 0, 0, 1));
  EXPECT_EQ(windows[1].source.spans[2], (TextSpan{5, 6}));
  EXPECT_EQ(windows[1].argument, 3);
  EXPECT_NE(windows[0].key, windows[1].key);
}

TEST(WindowsTest, CausalModelsStartWithTheTemplateAndEndOpen) {
  const Letters letters;
  const WindowCutter cutter(letters, Config(true), {.context = 4});
  const auto windows = cutter.Cut({"x", 0, 0, "abcd"});
  ASSERT_EQ(windows.size(), 1);
  EXPECT_THAT(windows[0].source.ids, ElementsAre(1, 'a', 'b', 'c'));
}

TEST(WindowsTest, ContextMustFitTheModel) {
  const Letters letters;
  for (const int64_t context : {7, 3, -1}) {
    EXPECT_THROW(WindowCutter(letters, Config(false), {.context = context}),
                 Error)
        << context;
  }
  EXPECT_EQ(ContextOf(Config(false), 0), 6);
  ModelConfig rotary = Config(true);
  rotary.positions = Positions::kRotary;
  EXPECT_EQ(ContextOf(rotary, 1000), 1000);
  EXPECT_EQ(ContextOf(rotary, kOpenContext), kOpenContext);
  EXPECT_THROW(ContextOf(rotary, kOpenContext + 1), Error) << "takes hours";
  rotary.context = 2 * kOpenContext;
  EXPECT_EQ(ContextOf(rotary, 2 * kOpenContext), 2 * kOpenContext);
}

TEST(WindowsTest, PairsForEncoderDecoders) {
  const Letters letters;
  ModelConfig config = Config(false);
  config.decoder.resize(1);
  config.decoder_start = 9;
  const WindowCutter cutter(letters, config);
  const auto windows = cutter.Cut({"x", 0, 0, "ab\tcd\n\nefghijk\tl\n"});
  ASSERT_EQ(windows.size(), 2);
  EXPECT_THAT(windows[0].source.ids, ElementsAre(1, 'a', 'b', 2));
  EXPECT_THAT(windows[0].target.ids, ElementsAre(9, 'c', 'd'));
  EXPECT_EQ(windows[1].source.size(), 6) << "cut to the context";
  const auto dos = cutter.Cut({"x", 0, 0, "ab\tcd\r\n"});
  ASSERT_EQ(dos.size(), 1);
  EXPECT_THAT(dos[0].target.ids, ElementsAre(9, 'c', 'd'));
  try {
    cutter.Cut({"pairs.tsv", 0, 0, "a\tb\nno tab"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("line 2"));
  }
}

}  // namespace
}  // namespace headwise::windows_test
