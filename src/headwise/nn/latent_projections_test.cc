// Latents against the formula in f64, their gradients by finite differences,
// and layers of them over a cache.
#include "headwise/nn/latent_projections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "headwise/nn/attention_for_test.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/head_slices.h"
#include "headwise/nn/head_weights.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise::nn_test::latent_projections_test {
namespace {

constexpr int64_t kHeads = 3, kOwn = 4, kShared = 2, kValue = 3;
constexpr int64_t kDim = kOwn + kShared, kRank = 7, kQueryRank = 6;

LatentProjections MakeLatents(TestValues& values, bool narrow_queries) {
  const auto norm = [&](const char* name, int64_t width) {
    return Norm(NormKind::kRms, kEpsilon, values.Make(name, {width}, 1), {});
  };
  LatentWeights w;
  if (narrow_queries) {
    w.query_down = values.MakeLinear("qa", {kQueryRank}, kWidth);
    w.query_norm = norm("qn", kQueryRank);
  }
  w.query = values.MakeLinear("q", {kHeads * kDim},
                              narrow_queries ? kQueryRank : kWidth);
  w.down = values.MakeLinear("down", {kRank}, kWidth);
  w.norm = norm("n", kRank);
  w.shared_keys = values.MakeLinear("r", {kShared}, kWidth);
  w.keys = values.MakeLinear("k", {kHeads * kOwn}, kRank);
  w.values = values.MakeLinear("v", {kHeads * kValue}, kRank);
  return {std::move(w), kHeads};
}

AttentionLayer MakeLatentLayer(TestValues& values, bool narrow_queries) {
  AttentionWeights w;
  w.latent = MakeLatents(values, narrow_queries);
  w.output = values.MakeLinear("o", {kWidth}, kHeads * kValue);
  w.rope =
      std::make_shared<RopeTable>(RopeConfig{.head_dim = kShared, .base = 50});
  return {{.heads = kHeads,
           .kv_heads = kHeads,
           .head_dim = kDim,
           .value_dim = kValue,
           .mask = AttentionMask::Causal()},
          std::move(w),
          {AttentionKind::kSelf, 0, "a"}};
}

Numbers Normed(const Norm& norm, Numbers rows) {
  const auto* gain =
      static_cast<const float*>(norm.weight_parameter().value.data);
  for (int64_t at = 0; at < std::ssize(rows); at += norm.width()) {
    double squares = 0;
    for (int64_t i = 0; i < norm.width(); ++i) {
      squares += rows[at + i] * rows[at + i];
    }
    const double root =
        std::sqrt(squares / static_cast<double>(norm.width()) + kEpsilon);
    for (int64_t i = 0; i < norm.width(); ++i) rows[at + i] *= gain[i] / root;
  }
  return rows;
}

TEST(LatentProjectionsTest, AreTheFormula) {
  for (const bool narrow : {false, true}) {
    TestValues values;
    const LatentProjections latents = MakeLatents(values, narrow);
    const LatentWeights& w = latents.weights();
    const Tensor x = RandomTensor({3, kWidth}, 5);
    const Numbers in = Wide(x, 0, x.size());
    const Numbers c = Normed(w.norm, Product(w.down, in));
    const Numbers q = Product(
        w.query, narrow ? Normed(w.query_norm, Product(w.query_down, in)) : in);
    const Numbers k = Product(w.keys, c), v = Product(w.values, c);
    const Numbers r = Product(w.shared_keys, in);
    Numbers expected;
    const auto add = [&](const Numbers& of, int64_t begin, int64_t count) {
      expected.insert(expected.end(), of.begin() + begin,
                      of.begin() + begin + count);
    };
    for (int64_t t = 0; t < 3; ++t) {
      add(q, t * kHeads * kDim, kHeads * kDim);
      for (int64_t h = 0; h < kHeads; ++h) {
        add(k, (t * kHeads + h) * kOwn, kOwn);
        add(r, t * kShared, kShared);
      }
      add(v, t * kHeads * kValue, kHeads * kValue);
    }
    Context context({2, ""});
    Tensor rows(DType::kF32, {3, latents.columns()});
    latents.Forward(context, x.view(), rows.view(), nullptr);
    ExpectNear(ToVector<float>(context, rows.view()), expected);
  }
}

TEST(LatentProjectionsTest, BackwardIsTheSlopeOfALayer) {
  for (const bool narrow : {false, true}) {
    TestValues values;
    const AttentionLayer layer = MakeLatentLayer(values, narrow);
    const int64_t lengths[] = {4, 2};
    const SequenceBatch batch = MakeBatch(lengths);
    values.Make("x", {6, kWidth});
    const Tensor r = RandomTensor({6, kWidth}, 9);
    Tensor y(DType::kF32, {6, kWidth});
    Context context({2, ""});
    AttentionSaved saved;
    AttentionInput input;
    input.x = std::as_const(values.value("x")).view();
    input.batch = &batch;
    input.saved = &saved;
    const auto loss = [&] {
      layer.Forward(context, input, y.view(), Store::kOverwrite);
      return Dot(y, r);
    };
    loss();
    layer.Backward(context, input, saved, r.view(), values.gradient("x").view(),
                   {});
    values.Check(loss, 4);
  }
}

TEST(LatentProjectionsTest, PiecesOverACacheGiveWhatTheWholeGives) {
  TestValues values;
  const AttentionLayer layer = MakeLatentLayer(values, true);
  const Tensor x = RandomTensor({6, kWidth}, 3);
  const SequenceBatch all = MakeBatch(std::vector<int64_t>{6});
  Tensor whole(DType::kF32, {6, kWidth});
  Context context({1, ""});
  AttentionInput input;
  input.x = x.view();
  input.batch = &all;
  layer.Forward(context, input, whole.view(), Store::kOverwrite);
  Tensor k(DType::kF32, {1, 6, kHeads, kDim});
  Tensor v(DType::kF32, {1, 6, kHeads, kValue});
  std::vector<int32_t> lengths = {0};
  const CacheView cache = {k.view(), v.view(), lengths};
  input.cache = &cache;
  for (const int64_t rows : {3, 1, 2}) {
    SequenceBatch batch = MakeBatch(std::vector<int64_t>{rows});
    for (int32_t& position : batch.positions) position += lengths[0];
    input.x = Rows(x.view(), lengths[0], lengths[0] + rows);
    input.batch = &batch;
    Tensor y(DType::kF32, {rows, kWidth});
    layer.Forward(context, input, y.view(), Store::kOverwrite);
    ExpectNear(ToVector<float>(context, y.view()),
               Wide(whole, lengths[0] * kWidth, rows * kWidth));
    lengths[0] += static_cast<int32_t>(rows);
  }
}

// What pruning takes of a head: nothing that heads share.
TEST(LatentProjectionsTest, HeadsOwnWhatIsBehindTheLatents) {
  TestValues values;
  const AttentionLayer layer = MakeLatentLayer(values, true);
  std::vector<std::string> found;
  for (const auto& slices : {SlicesOfHead(layer, 1), SlicesOfGroup(layer, 1)}) {
    for (const StoredSlice& slice : slices) {
      found.push_back(slice.of->name + " " + std::to_string(slice.first) + "+" +
                      std::to_string(slice.count));
    }
  }
  EXPECT_THAT(found, testing::UnorderedElementsAre(
                         "q.0.weight 6+6", "q.0.bias 6+6", "k.0.weight 4+4",
                         "k.0.bias 4+4", "v.0.weight 3+3", "v.0.bias 3+3",
                         "o.0.weight 3+3"));
  EXPECT_STREQ(layer.Special(), "keys and values of latents");
}

// W_V = W_DKV · diag(gain) · W_UV.
TEST(LatentProjectionsTest, WeightsOfAHeadGoThroughTheLatent) {
  TestValues values;
  const AttentionLayer layer = MakeLatentLayer(values, true);
  Context context({1, ""});
  const HeadWeights head = WeightsOfHead(context, layer, 2);
  EXPECT_EQ(head.q.shape(1), kDim);
  ASSERT_EQ(head.k.shape(1), kDim);
  ASSERT_EQ(head.v.shape(1), kValue);
  EXPECT_TRUE(NormsQueries(layer));
  const float* down = values.value("down.0.weight").As<float>();
  const float* up = values.value("v.0.weight").As<float>();
  const float* gain = values.value("n").As<float>();
  for (int64_t i = 0; i < kWidth; ++i) {
    for (int64_t e = 0; e < kValue; ++e) {
      double sum = 0;
      for (int64_t r = 0; r < kRank; ++r) {
        sum += static_cast<double>(down[r * kWidth + i]) * gain[r] *
               up[(2 * kValue + e) * kRank + r];
      }
      EXPECT_NEAR(head.v.As<float>()[i * kValue + e], sum, 1e-5);
    }
    const float* shared = values.value("r.0.weight").As<float>();
    EXPECT_EQ(head.k.As<float>()[i * kDim + kOwn + 1], shared[kWidth + i]);
  }
}

}  // namespace
}  // namespace headwise::nn_test::latent_projections_test
