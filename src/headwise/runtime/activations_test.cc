#include "headwise/runtime/activations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "headwise/error.h"
#include "headwise/model/checkpoint.h"

namespace headwise::activations_test {
namespace {

TEST(MatchesPattern, KnowsStarsAndQuestionMarks) {
  EXPECT_TRUE(MatchesPattern("logits", "logits"));
  EXPECT_TRUE(MatchesPattern("layer.*.probs", "layer.3.attention.probs"));
  EXPECT_TRUE(MatchesPattern("layer.?.input", "layer.3.input"));
  EXPECT_TRUE(MatchesPattern("*", "anything"));
  EXPECT_TRUE(MatchesPattern("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(MatchesPattern("layer.?.input", "layer.13.input"));
  EXPECT_FALSE(MatchesPattern("logits", "logits2"));
  EXPECT_FALSE(MatchesPattern("*a*b", "xxbxxa"));
  EXPECT_FALSE(MatchesPattern("", "x"));
}

class ActivationsTest : public testing::Test {
 protected:
  const std::unique_ptr<Model> model_ =
      OpenModel(std::filesystem::path(HEADWISE_SOURCE) / "assets" / "planted");
  Context context_{{.threads = 1, .implementations = ""}};
};

TEST_F(ActivationsTest, TakeAsManyBytesAsWasSaid) {
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<int64_t> lengths = {5, 2};
  const ForwardInput input{.ids = ids, .lengths = lengths};
  for (const char* pattern : {"*", "logits", "layer.1.attention.probs"}) {
    uint64_t bytes = 0;
    for (const auto& [name, tensor] :
         RecordActivations(context_, *model_, input, {pattern})) {
      bytes += tensor.bytes();
    }
    EXPECT_EQ(ActivationBytes(*model_, input, {pattern}), bytes) << pattern;
  }
}

// The model has 512 positions: had it been run, it would have said so.
TEST_F(ActivationsTest, TooManyDenseProbabilitiesAreRefusedBeforeTheRun) {
  const std::vector<int32_t> ids(kMostDenseTokens + 1, 1);
  const std::vector<int64_t> lengths = {kMostDenseTokens + 1};
  const ForwardInput input{.ids = ids, .lengths = lengths};
  const auto message = [&](const auto& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::vector<std::string> names = {"layer.1.attention.probs"};
  const auto refused = testing::HasSubstr(
      "[layer.1.attention.probs] expected at most 4096 tokens for dense "
      "probabilities; found 4097");
  EXPECT_THAT(
      message([&] { RecordActivations(context_, *model_, input, names); }),
      refused);
  EXPECT_THAT(message([&] { ActivationBytes(*model_, input, names); }),
              refused);
}

}  // namespace
}  // namespace headwise::activations_test
