// Slopes by their formula, and what layers with them refuse. Their scores and
// gradients: attention_switches_test.cc.
#include "headwise/nn/alibi_slopes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headwise/error.h"
#include "headwise/nn/attention_for_test.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/cache_split.h"
#include "headwise/ops/copy/copy.h"

namespace headwise::nn_test::alibi_slopes_test {
namespace {

std::vector<float> SlopesOf(int64_t all, const std::vector<int32_t>& columns) {
  Context context({1, ""});
  return ToVector<float>(context, AlibiSlopes(all, columns).view(context));
}

TEST(AlibiSlopesTest, HalveFromHeadToHead) {
  EXPECT_EQ(SlopesOf(8, {0, 1, 7}),
            (std::vector<float>{0.5f, 0.25f, 1.0f / 256}));
  EXPECT_EQ(SlopesOf(1, {0}), (std::vector<float>{1.0f / 256}));
}

// Two of two heads, then the first and the third of four.
TEST(AlibiSlopesTest, OfNoPowerOfTwoTakeSomeOfTheNext) {
  EXPECT_EQ(SlopesOf(3, {0, 1, 2}),
            (std::vector<float>{1.0f / 16, 1.0f / 256, 1.0f / 4}));
}

TEST(AlibiSlopesTest, ACacheByRoleIsRefused) {
  TestValues values;
  Case c;
  c.sloped = true;
  const AttentionLayer layer = MakeLayer(values, c, "a");
  EXPECT_STREQ(layer.BiasName(), "slopes (ALiBi)");
  const SequenceBatch batch = MakeBatch(std::vector<int64_t>{2});
  const Tensor x = RandomTensor({2, kWidth}, 3);
  Tensor y(DType::kF32, {2, kWidth});
  std::vector<int32_t> lengths = {0};
  const CacheSplit parts;
  const CacheView cache = {.lengths = lengths, .split = &parts};
  AttentionInput input;
  input.x = x.view();
  input.batch = &batch;
  input.cache = &cache;
  Context context({1, ""});
  std::string found;
  try {
    layer.Forward(context, input, y.view(), Store::kOverwrite);
  } catch (const Error& error) {
    found = error.what();
  }
  EXPECT_THAT(found, testing::HasSubstr("slopes (ALiBi)"));
}

}  // namespace
}  // namespace headwise::nn_test::alibi_slopes_test
