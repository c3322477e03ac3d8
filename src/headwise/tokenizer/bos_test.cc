#include "headwise/tokenizer/bos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "headwise/error.h"

namespace headwise::bos_test {
namespace {

namespace fs = std::filesystem;

TEST(BosTest, AChatTemplateOpensWithTheTokenOrNot) {
  for (const char* opening :
       {"{{ bos_token }}{% for m in messages %}{{ m }}{% endfor %}",
        "{%- if x %}\n  {{- '<s>system\\n' }}{%- else %}{{ y }}{%- endif %}",
        "{# says hello #}\n{{ \"<s>\" + messages[0].content }}",
        "{% if bad %}{{ raise_exception('no') }}{% endif %}{{ bos_token + x }}",
        "<s>[INST] {{ messages[0] }}"}) {
    EXPECT_TRUE(OpensWith(opening, "<s>")) << opening;
  }
  for (const char* other :
       {"", "{{ content }}", "{{ '[INST]' + bos_token }}", "{% never ends",
        "{% for m in messages %}{{ '<|user|>' + m }}{% endfor %}",
        "User: {{ bos_token }}"}) {
    EXPECT_FALSE(OpensWith(other, "<s>")) << other;
  }
  EXPECT_FALSE(OpensWith("{{ bos_token }}", ""));
}

class BosFactsTest : public testing::Test {
 protected:
  BosFactsTest()
      : folder_(fs::path(testing::TempDir()) /
                (std::to_string(::getpid()) + "_bos_facts")) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~BosFactsTest() override { fs::remove_all(folder_); }

  BosFacts Read(const std::string& config) {
    std::ofstream(folder_ / "tokenizer_config.json") << config;
    return ReadBosFacts(folder_);
  }

  fs::path folder_;
};

TEST_F(BosFactsTest, AFolderWithoutConfigurationSaysNothing) {
  const BosFacts facts = ReadBosFacts(folder_);
  EXPECT_FALSE(facts.add.has_value());
  EXPECT_FALSE(facts.token.has_value());
  EXPECT_FALSE(facts.null_token);
}

TEST_F(BosFactsTest, TokensAreNamedPlainlyOrAsObjects) {
  EXPECT_EQ(Read(R"({"bos_token": "<s>"})").token, "<s>");
  EXPECT_EQ(Read(R"({"bos_token": {"content": "<b>"}})").token, "<b>");
  EXPECT_TRUE(Read(R"({"bos_token": null})").null_token);
  EXPECT_EQ(Read(R"({"add_bos_token": false})").add, false);
}

TEST_F(BosFactsTest, TheDefaultOfSeveralChatTemplatesCounts) {
  EXPECT_TRUE(Read(R"({"bos_token": "<s>", "chat_template": [
      {"name": "tools", "template": "x"},
      {"name": "default", "template": "{{ bos_token }}"}]})")
                  .opens_chat);
  EXPECT_TRUE(Read(R"({"bos_token": "<s>", "chat_template": {
      "tools": "x", "default": "{{ bos_token }}"}})")
                  .opens_chat);
  std::ofstream(folder_ / "chat_template.jinja") << "{{- '<s>' }}";
  EXPECT_TRUE(Read(R"({"bos_token": "<s>"})").opens_chat);
}

TEST_F(BosFactsTest, WrongTypesAreNamed) {
  for (const char* wrong :
       {R"({"add_bos_token": "yes"})", R"({"bos_token": 5})",
        R"({"bos_token": "<s>", "chat_template": 5})"}) {
    EXPECT_THROW(Read(wrong), Error) << wrong;
  }
}

}  // namespace
}  // namespace headwise::bos_test
