#include "headwise/nn/head_weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "headwise/base/rng.h"
#include "headwise/error.h"

namespace headwise::head_weights_test {
namespace {

constexpr int64_t kWidth = 6, kHeads = 4, kGroups = 2, kDim = 3;

// A grouped layer over matrices of random values, stored [out, in].
class HeadWeightsTest : public testing::Test {
 protected:
  HeadWeightsTest() {
    Rng rng(1);
    for (Tensor* t : {&q_, &k_, &v_, &o_}) {
      for (int64_t i = 0; i < t->size(); ++i) {
        t->As<float>()[i] = static_cast<float>(rng.Normal());
      }
    }
    AttentionLayerConfig config;
    config.heads = kHeads;
    config.kv_heads = kGroups;
    config.head_dim = kDim;
    AttentionWeights weights;
    auto part = [](const Tensor& t) {
      return Linear::Part{{"w", t.view()}, {}};
    };
    for (int64_t i = 0; i < kDim; ++i) {
      gain_.As<float>()[i] = static_cast<float>(i + 1);
    }
    AttentionWeights normed;
    for (HeadNorms* norm : {&normed.query_norm, &normed.key_norm}) {
      *norm = Norm(NormKind::kRms, 1e-6f, {"gain", gain_.view()}, {});
    }
    for (AttentionWeights* w : {&weights, &normed}) {
      w->of_x = Linear({part(q_), part(k_), part(v_)}, WeightLayout::kOutIn);
      w->output = Linear({part(o_)}, WeightLayout::kOutIn);
    }
    normed_layer_ = AttentionLayer(config, std::move(normed),
                                   {AttentionKind::kSelf, 0, "layer.0"});
    layer_ = AttentionLayer(config, std::move(weights),
                            {AttentionKind::kSelf, 0, "layer.0.attention"});
  }

  Context context_{{1, ""}};
  Tensor q_{DType::kF32, {kHeads * kDim, kWidth}};
  Tensor k_{DType::kF32, {kGroups * kDim, kWidth}};
  Tensor v_{DType::kF32, {kGroups * kDim, kWidth}};
  Tensor o_{DType::kF32, {kWidth, kHeads* kDim}};
  Tensor gain_{DType::kF32, {kDim}};
  AttentionLayer layer_;
  AttentionLayer normed_layer_;  // queries and keys normed head by head
};

TEST_F(HeadWeightsTest, SlicesFollowHeadsAndGroups) {
  const HeadWeights w = WeightsOfHead(context_, layer_, 3);  // of group 1
  for (int64_t r = 0; r < kWidth; ++r) {
    for (int64_t c = 0; c < kDim; ++c) {
      EXPECT_EQ(w.q.As<float>()[r * kDim + c],
                q_.As<float>()[(3 * kDim + c) * kWidth + r]);
      EXPECT_EQ(w.k.As<float>()[r * kDim + c],
                k_.As<float>()[(1 * kDim + c) * kWidth + r]);
      EXPECT_EQ(w.v.As<float>()[r * kDim + c],
                v_.As<float>()[(1 * kDim + c) * kWidth + r]);
      EXPECT_EQ(w.o.As<float>()[c * kWidth + r],
                o_.As<float>()[r * kHeads * kDim + 3 * kDim + c]);
    }
  }
  EXPECT_THROW(WeightsOfHead(context_, layer_, kHeads), Error);
}

TEST_F(HeadWeightsTest, GainsOfQueryAndKeyNormsArePartOfTheWeights) {
  EXPECT_FALSE(NormsQueries(layer_));
  EXPECT_TRUE(NormsQueries(normed_layer_));
  const HeadWeights plain = WeightsOfHead(context_, layer_, 2);
  const HeadWeights folded = WeightsOfHead(context_, normed_layer_, 2);
  for (int64_t i = 0; i < kWidth * kDim; ++i) {
    const float gain = gain_.As<float>()[i % kDim];
    EXPECT_EQ(folded.q.As<float>()[i], gain * plain.q.As<float>()[i]);
    EXPECT_EQ(folded.k.As<float>()[i], gain * plain.k.As<float>()[i]);
    EXPECT_EQ(folded.v.As<float>()[i], plain.v.As<float>()[i]);
  }
}

// (w·(1 − mean)) ∘ g: what a norm that takes the mean off makes of x·w.
TEST_F(HeadWeightsTest, TheMeanThatANormTakesOffIsPartOfTheWeights) {
  AttentionWeights centred = layer_.weights();
  centred.query_norm = centred.key_norm =
      Norm(NormKind::kLayer, 1e-6f, {"gain", gain_.view()}, {});
  const AttentionLayer layer(layer_.config(), std::move(centred),
                             layer_.site());
  const HeadWeights plain = WeightsOfHead(context_, layer_, 2);
  const HeadWeights folded = WeightsOfHead(context_, layer, 2);
  for (int64_t r = 0; r < kWidth; ++r) {
    const float* row = plain.q.As<float>() + r * kDim;
    const float mean = (row[0] + row[1] + row[2]) / kDim;
    for (int64_t i = 0; i < kDim; ++i) {
      EXPECT_NEAR(folded.q.As<float>()[r * kDim + i],
                  gain_.As<float>()[i] * (row[i] - mean), 1e-6);
    }
  }
}

TEST_F(HeadWeightsTest, NormsAreThoseOfTheProducts) {
  const HeadWeights w = WeightsOfHead(context_, layer_, 1);
  auto frobenius = [](const Tensor& t) {
    double sum = 0;
    for (int64_t i = 0; i < t.size(); ++i) {
      sum += std::pow(t.As<float>()[i], 2);
    }
    return std::sqrt(sum);
  };
  EXPECT_NEAR(QkNorm(context_, w), frobenius(QkProduct(context_, w)), 1e-4);
  EXPECT_NEAR(OvNorm(context_, w), frobenius(OvProduct(context_, w)), 1e-4);
}

}  // namespace
}  // namespace headwise::head_weights_test
