// Buckets of distances as transformers has them, their tables, and what cannot
// be run with them.
#include "headwise/nn/relative_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/nn/attention_for_test.h"
#include "headwise/nn/cache_split.h"
#include "headwise/ops/copy/copy.h"

namespace headwise::nn_test::relative_bias_test {
namespace {

std::vector<int32_t> AllBuckets(const RelativeBuckets& buckets) {
  std::vector<int32_t> all;
  const int64_t most = buckets.max_distance + 2;
  for (int64_t d = -most; d <= most; ++d) all.push_back(BucketOf(buckets, d));
  return all;
}

// Of T5Attention._relative_position_bucket (transformers 5.12.1).
TEST(RelativeBuckets, AreThoseOfTransformers) {
  EXPECT_THAT(
      AllBuckets({8, 20, true}),
      testing::ElementsAre(3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2,
                           2, 2, 2, 1, 0, 5, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7,
                           7, 7, 7, 7, 7, 7, 7, 7, 7));
  // Longer lists as Σ bucket · 31^place modulo a prime.
  const auto hash = [](const RelativeBuckets& buckets) {
    int64_t sum = 0;
    for (const int32_t bucket : AllBuckets(buckets)) {
      sum = (sum * 31 + bucket) % 1'000'003;
    }
    return sum;
  };
  EXPECT_EQ(hash({32, 128, true}), 658651);
  EXPECT_EQ(hash({32, 128, false}), 787368);
  EXPECT_EQ(hash({9, 30, false}), 319002);
  EXPECT_EQ(hash({7, 9, true}), 211055);
  EXPECT_EQ(hash({32, 100, false}), 867530);
  EXPECT_EQ(hash({16, 100, true}), 643270);
}

TEST(RelativeBuckets, WithoutTwoKindsAreUnsound) {
  EXPECT_TRUE(IsSound({4, 2, true}));
  EXPECT_FALSE(IsSound({3, 20, true}));
  EXPECT_TRUE(IsSound({3, 20, false}));
  EXPECT_FALSE(IsSound({32, 8, true}));
  EXPECT_FALSE(IsSound({32, kMostRelativeDistance + 1, true}));
}

TEST(RelativeBiasTest, TablesHaveTheBucketOfEachDistance) {
  for (const bool fixed : {false, true}) {
    TestValues values;
    Parameter table = values.Make("b", {6, 3});
    if (fixed) table.gradient = {};
    const RelativeBuckets buckets = {6, 11, true};
    const RelativeBias bias(buckets, table, {2, 0});
    Context context({1, ""});
    AttentionProblem problem;
    AttentionArgs args;
    Temp made;
    bias.Forward(context, problem, args, made);
    EXPECT_EQ(problem.bias, AttentionBias::kRelative);
    const int64_t reach = problem.relative_reach;
    EXPECT_LE(reach, 11);
    for (int64_t d = -15; d <= 15; ++d) {
      const int64_t held = std::clamp(d, -reach, reach);
      for (const auto& [head, column] : {std::pair(0, 2), {1, 0}}) {
        EXPECT_EQ(
            args.relative_table
                .Raw<float>()[head * (2 * reach + 1) + held + reach],
            values.value("b").As<float>()[BucketOf(buckets, d) * 3 + column])
            << d;
      }
    }
    if (fixed) continue;
    // Each number of dtable comes to its bucket, once.
    const int64_t width = 2 * reach + 1;
    Tensor dtable(DType::kF32, {2, width});
    for (int64_t i = 0; i < 2 * width; ++i) {
      dtable.As<float>()[i] = static_cast<float>(i + 1);
    }
    std::vector<float> expected(18, 0.5f);
    std::fill_n(values.gradient("b").As<float>(), 18, 0.5f);
    for (int64_t i = 0; i < width; ++i) {
      const int64_t row = BucketOf(buckets, i - reach) * 3;
      expected[row + 2] += static_cast<float>(i + 1);
      expected[row] += static_cast<float>(width + i + 1);
    }
    bias.Backward(context, dtable.view());
    EXPECT_EQ(ToVector<float>(context, values.gradient("b").view()), expected);
  }
}

// Two layers of one table, each with some of its columns; keys on both sides.
TEST(RelativeBiasTest, LayersShareATableAndItsGradient) {
  TestValues values(3);
  const Parameter table = values.Make("b", {8, 3});
  std::vector<AttentionLayer> layers;
  const std::vector<std::vector<int32_t>> columns = {{0, 1, 2}, {2, 1}};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t heads = std::ssize(columns[i]);
    const std::string name = std::to_string(i);
    AttentionWeights w;
    w.of_x = values.MakeLinear(name + ".qkv", {heads * 4, heads * 4, heads * 4},
                               kWidth);
    w.output = values.MakeLinear(name + ".o", {kWidth}, heads * 4);
    w.bias = std::make_shared<RelativeBias>(RelativeBuckets{8, 5, true}, table,
                                            columns[i]);
    layers.emplace_back(
        AttentionLayerConfig{
            .heads = heads, .kv_heads = heads, .head_dim = 4, .scale = 1},
        std::move(w), AttentionSite{AttentionKind::kSelf, 0, name});
  }
  values.Make("x", {9, kWidth});
  const SequenceBatch batch = MakeBatch(std::vector<int64_t>{6, 3});
  Context context({2, ""});
  const Tensor r = RandomTensor({9, kWidth}, 9);
  Tensor y(DType::kF32, {9, kWidth});
  AttentionSaved saved[2];
  const auto input = [&](size_t i) {
    AttentionInput of;
    of.x = std::as_const(values.value("x")).view();
    of.batch = &batch;
    of.saved = &saved[i];
    return of;
  };
  const auto loss = [&] {
    double sum = 0;
    for (size_t i = 0; i < 2; ++i) {
      layers[i].Forward(context, input(i), y.view(), Store::kOverwrite);
      sum += Dot(y, r);
    }
    return sum;
  };
  loss();
  Tensor dx(DType::kF32, {9, kWidth});
  for (size_t i = 0; i < 2; ++i) {
    layers[i].Backward(context, input(i), saved[i], r.view(), dx.view(), {});
    for (int64_t j = 0; j < dx.size(); ++j) {
      values.gradient("x").As<float>()[j] += dx.As<float>()[j];
    }
  }
  values.Check(loss);
}

std::string ErrorOf(const auto& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RelativeBiasTest, WhatCannotBeRunIsRefusedByName) {
  TestValues values;
  Case c;
  c.biased = true;
  const AttentionLayer layer = MakeLayer(values, c, "a");
  EXPECT_STREQ(layer.BiasName(), "a relative bias");
  EXPECT_THAT(ErrorOf([&] {
                AttentionWeights more = layer.weights();
                more.spans = HeadSpans({.ramp = 2, .limit = 8},
                                       values.Make("spans", {4}));
                const AttentionLayer bad(layer.config(), more, layer.site());
              }),
              testing::HasSubstr("learned spans"));
  EXPECT_THAT(ErrorOf([&] {
                AttentionWeights more = layer.weights();
                more.bias = std::make_shared<RelativeBias>(
                    RelativeBuckets{5, 4, false}, values.Make("c", {5, 3}),
                    std::vector<int32_t>{0, 1, 2});
                const AttentionLayer bad(layer.config(), more, layer.site());
              }),
              testing::HasSubstr("a relative bias of 4 heads"));
  EXPECT_THAT(
      ErrorOf([&] {
        const RelativeBias bad({5, 4, false}, values.Make("d", {5, 3}), {0, 3});
      }),
      testing::HasSubstr("columns below 3"));
  // A cache by role keeps no places of keys.
  const Tensor x = RandomTensor({2, kWidth}, 3);
  Tensor y(DType::kF32, {2, kWidth});
  Context context({1, ""});
  const SequenceBatch batch = MakeBatch(std::vector<int64_t>{2});
  std::vector<int32_t> lengths = {0};
  const CacheSplit parts;
  const CacheView cache = {.lengths = lengths, .split = &parts};
  AttentionInput input;
  input.x = x.view();
  input.batch = &batch;
  input.cache = &cache;
  EXPECT_THAT(ErrorOf([&] {
                layer.Forward(context, input, y.view(), Store::kOverwrite);
              }),
              testing::HasSubstr("a relative bias"));
}

}  // namespace
}  // namespace headwise::nn_test::relative_bias_test
