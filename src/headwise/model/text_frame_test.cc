// One rule for what begins a text, by everything that files may say.
#include "headwise/model/text_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "headwise/error.h"

namespace headwise::text_frame_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

constexpr const char* kTemplate = R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "</s>", "type_id": 0}}],
    "pair": [], "special_tokens": {
      "<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]},
      "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}})";

class TextFrameTest : public testing::Test {
 protected:
  TextFrameTest()
      : folder_(fs::path(testing::TempDir()) /
                (std::to_string(::getpid()) + "_text_frame")) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    model_.causal = true;
    model_.bos = 1;
  }
  ~TextFrameTest() override { fs::remove_all(folder_); }

  // A folder's tokenizer, with "" for a file that is not there.
  std::unique_ptr<Tokenizer> Make(const std::string& post_processor,
                                  const std::string& config,
                                  BosChoice asked = BosChoice::kAuto) {
    std::ofstream(folder_ / "tokenizer.json")
        << R"({"model": {"type": "WordLevel", "unk_token": "a",
               "vocab": {"a": 0, "<s>": 1, "</s>": 2, "<t>": 3}},
               "post_processor": )"
        << (post_processor.empty() ? "null" : post_processor) << "}";
    fs::remove(folder_ / "tokenizer_config.json");
    if (!config.empty()) {
      std::ofstream(folder_ / "tokenizer_config.json") << config;
    }
    return Tokenizer::Load(folder_, {.bos = asked});
  }

  TokenFrame Frame(const std::string& post_processor, const std::string& config,
                   BosChoice asked = BosChoice::kAuto) {
    return FrameOf(*Make(post_processor, config, asked), model_);
  }

  fs::path folder_;
  ModelConfig model_;
};

TEST_F(TextFrameTest, TheTemplateBeginsTextsOfCausalModels) {
  const TokenFrame frame = Frame(kTemplate, "");
  EXPECT_THAT(frame.before, ElementsAre(1));
  EXPECT_THAT(frame.after, IsEmpty()) << "texts go on";
  EXPECT_THAT(frame.why, HasSubstr("template adds it"));
}

TEST_F(TextFrameTest, AddBosTokenOverridesTheTemplate) {
  const TokenFrame none = Frame(kTemplate, R"({"add_bos_token": false})");
  EXPECT_THAT(none.before, IsEmpty());
  EXPECT_THAT(none.why, HasSubstr("add_bos_token is false"));
  EXPECT_THAT(
      Frame("", R"({"add_bos_token": true, "bos_token": "<t>"})").before,
      ElementsAre(3));
}

TEST_F(TextFrameTest, AChatTemplateThatAddsTheTokenShowsThatTheModelKnowsIt) {
  const TokenFrame frame =
      Frame("", R"({"add_bos_token": false, "bos_token": "<t>",
                    "chat_template": "{{- '<t>user' + x }}"})");
  EXPECT_THAT(frame.before, ElementsAre(3));
  EXPECT_THAT(frame.why, HasSubstr("chat template"));
  EXPECT_THAT(Frame("", R"({"add_bos_token": false, "bos_token": "<t>",
                            "chat_template": "{{- '<|user|>' + x }}"})")
                  .before,
              IsEmpty());
}

TEST_F(TextFrameTest, WhereFilesAreSilentTheNamedTokenCounts) {
  EXPECT_THAT(Frame("", "").before, ElementsAre(1));
  EXPECT_THAT(Frame("", R"({"bos_token": "<t>"})").before, ElementsAre(3));
  EXPECT_THAT(Frame("", R"({"bos_token": null})").before, IsEmpty());
  model_.bos = -1;
  const TokenFrame none = Frame("", "");
  EXPECT_THAT(none.before, IsEmpty());
  EXPECT_EQ(none.why, "no file names one");
}

TEST_F(TextFrameTest, WhatIsAskedForComesFirst) {
  EXPECT_THAT(Frame(kTemplate, "", BosChoice::kNo).before, IsEmpty());
  EXPECT_THAT(Frame("", R"({"add_bos_token": false})", BosChoice::kYes).before,
              ElementsAre(1));
  model_.bos = -1;
  EXPECT_THROW(Frame("", "", BosChoice::kYes), Error);
}

TEST_F(TextFrameTest, EncodersFollowTheTemplate) {
  model_.causal = false;
  const TokenFrame frame = Frame(kTemplate, "");
  EXPECT_THAT(frame.before, ElementsAre(1));
  EXPECT_THAT(frame.after, ElementsAre(2));
  EXPECT_THAT(Frame("", "").before, IsEmpty());
  EXPECT_THAT(Frame(kTemplate, "", BosChoice::kNo).before, IsEmpty());
}

TEST_F(TextFrameTest, SourcesOfEncoderDecodersEnd) {
  model_.causal = false;
  model_.decoder.resize(1);
  model_.decoder_start = 3;
  model_.eos = {2};
  EXPECT_THAT(Frame("", "").after, ElementsAre(2));
  EXPECT_THAT(Frame(kTemplate, "").after, ElementsAre(2)) << "once";
  EXPECT_THAT(TargetFrameOf(model_).before, ElementsAre(3));
}

TEST_F(TextFrameTest, FramedTokensKeepTheirPlaces) {
  const auto tokenizer = Make(kTemplate, "");
  const Encoding found = Framer(*tokenizer, model_).Encode("a");
  EXPECT_THAT(found.ids, ElementsAre(1, 0));
  EXPECT_THAT(found.added, ElementsAre(1, 0));
  EXPECT_EQ(found.spans[1], (TextSpan{0, 1}));
}

}  // namespace
}  // namespace headwise::text_frame_test
