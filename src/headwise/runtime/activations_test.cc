#include "headwise/runtime/activations.h"

#include <gtest/gtest.h>

namespace headwise {
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

}  // namespace
}  // namespace headwise
