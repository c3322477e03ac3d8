// The module's rotary positions, cache and remembered source: step by step
// equals all at once, and rotary scores depend on distances alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/multi_head_attention.h"
#include "headwise/observation.h"
#include "headwise/tensor/slice.h"

namespace headwise::multi_head_decode_test {
namespace {

using Config = MultiHeadAttentionConfig;
using Cache = MultiHeadAttentionCache;
using Input = MultiHeadAttentionInput;

Tensor Random(std::initializer_list<int64_t> shape, uint64_t seed) {
  Tensor tensor(DType::kF32, shape);
  Rng rng(seed);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    tensor.As<float>()[i] = static_cast<float>(rng.Normal());
  }
  return tensor;
}

// Largest difference of part [B, m, n] to positions from `begin` of whole
// [B, M, n].
double MissedFrom(const Tensor& whole, int64_t begin, const Tensor& part) {
  double worst = 0;
  for (int64_t b = 0; b < part.shape(0); ++b) {
    for (int64_t m = 0; m < part.shape(1); ++m) {
      for (int64_t i = 0; i < part.shape(2); ++i) {
        const float want = whole.As<
            float>()[(b * whole.shape(1) + begin + m) * whole.shape(2) + i];
        const float got =
            part.As<float>()[(b * part.shape(1) + m) * part.shape(2) + i];
        worst = std::max(worst, std::abs(double{want} - double{got}));
      }
    }
  }
  return worst;
}

class MultiHeadDecode : public testing::Test {
 protected:
  Context context_{{.threads = 1, .implementations = ""}};
};

TEST_F(MultiHeadDecode, StepsEqualTheWholeSequence) {
  for (const double base : {0.0, 100.0}) {
    const MultiHeadAttention module({.d_model = 8,
                                     .heads = 4,
                                     .head_dim = 6,
                                     .kv_heads = 2,
                                     .bias = true,
                                     .rotary_base = base,
                                     .rotary_dim = 4},
                                    3);
    const Tensor x = Random({2, 7, 8}, 1);
    const Input whole{.x = x.view(), .mask = AttentionMask::Causal()};
    const Tensor want = module.Forward(context_, whole);
    Cache cache(context_, module.config(), 2, 7);
    const int64_t starts[] = {0, 4, 5, 7};
    for (int step = 0; step < 3; ++step) {
      const int64_t begin = starts[step], end = starts[step + 1];
      EXPECT_EQ(cache.length(), begin);
      Input input{.x = Slice(x.view(), 1, begin, end),
                  .mask = AttentionMask::Causal(),
                  .cache = &cache};
      const Tensor weights = module.Weights(context_, 3, input);
      EXPECT_EQ(weights.shape(2), end);
      EXPECT_EQ(cache.length(), begin);
      const Tensor all = module.Weights(context_, 3, whole);
      for (int64_t j = 0; j < end; ++j) {
        EXPECT_NEAR(weights.As<float>()[j], all.As<float>()[begin * 7 + j],
                    1e-6);
      }
      EXPECT_LE(MissedFrom(want, begin, module.Forward(context_, input)), 1e-6);
    }
    EXPECT_EQ(cache.length(), 7);
    const Tensor more = Random({2, 1, 8}, 2);
    EXPECT_THROW(module.Forward(context_, {.x = more.view(), .cache = &cache}),
                 Error);
    cache.Clear();
    EXPECT_EQ(cache.length(), 0);
    EXPECT_LE(MissedFrom(module.Forward(context_, {.x = more.view()}), 0,
                         module.Forward(context_,
                                        {.x = more.view(), .cache = &cache})),
              1e-6);
  }
}

TEST_F(MultiHeadDecode, GatesAndObservationWorkInSteps) {
  const MultiHeadAttention module(
      {.d_model = 8, .heads = 2, .rotary_base = 10000}, 3);
  const Tensor x = Random({1, 5, 8}, 1);
  const float shut[] = {0, 1};
  ConstTensorView gates(shut, DType::kF32, {1, 4, 2});
  gates.stride = {0, 0, 1};
  Cache cache(context_, module.config(), 1, 8);
  module.Forward(context_, {.x = Slice(x.view(), 1, 0, 4), .cache = &cache});
  gates.shape[1] = 1;
  Tensor entropy(DType::kF32, {1, 2, 1});
  Observation observation;
  observation.rows.entropy = entropy.view();
  Input next{.x = Slice(x.view(), 1, 4, 5),
             .mask = AttentionMask::Causal(),
             .gates = gates,
             .observation = &observation,
             .cache = &cache};
  const Tensor part = module.Output(context_, 1, next);
  const Tensor weights = module.Weights(context_, 1, next);
  const Tensor out = module.Forward(context_, next);
  EXPECT_LE(MissedFrom(out, 0, part), 1e-6);
  double want = 0;
  for (int64_t j = 0; j < 5; ++j) {
    const double p = weights.As<float>()[j];
    want -= p * std::log(p);
  }
  EXPECT_NEAR(entropy.As<float>()[1], want, 1e-5);
}

TEST_F(MultiHeadDecode, ARememberedSourceIsTheSource) {
  const MultiHeadAttention module(
      {.d_model = 8, .heads = 2, .kv_heads = 1, .source_dim = 5, .bias = true},
      3);
  const Tensor x = Random({2, 3, 8}, 1), source = Random({2, 6, 5}, 2);
  const Tensor want =
      module.Forward(context_, {.x = x.view(), .source = source.view()});
  Cache cache(context_, module.config(), 2, 9);
  const Input blind{.x = x.view(), .cache = &cache};
  EXPECT_THROW(module.Forward(context_, blind), Error);  // nothing remembered
  for (int i = 0; i < 2; ++i) {
    module.Remember(context_, source.view(), cache);
    EXPECT_EQ(cache.length(), 6);
    EXPECT_LE(MissedFrom(want, 0, module.Forward(context_, blind)), 1e-6);
    EXPECT_EQ(cache.length(), 6);
  }
  EXPECT_LE(MissedFrom(module.Weights(context_, 1,
                                      {.x = x.view(), .source = source.view()}),
                       0, module.Weights(context_, 1, blind)),
            1e-6);
}

// Rotary logits of one head written out in double.
TEST_F(MultiHeadDecode, RotaryPositionsTurnQueriesAndKeys) {
  const MultiHeadAttention module({.d_model = 4, .heads = 1, .rotary_base = 50},
                                  3);
  const Tensor x = Random({1, 6, 4}, 1);
  const MultiHeadAttentionParameters& p = module.parameters();
  auto turned = [&](const Tensor& w, int64_t position) {
    std::vector<double> y(4), z(4);
    for (int64_t j = 0; j < 4; ++j) {
      for (int64_t i = 0; i < 4; ++i) {
        y[j] +=
            double{x.As<float>()[position * 4 + i]} * w.As<float>()[i * 4 + j];
      }
    }
    for (int64_t i = 0; i < 2; ++i) {
      const double angle =
          static_cast<double>(position) * std::pow(50.0, -i / 2.0);
      z[i] = y[i] * std::cos(angle) - y[i + 2] * std::sin(angle);
      z[i + 2] = y[i + 2] * std::cos(angle) + y[i] * std::sin(angle);
    }
    return z;
  };
  const Tensor weights = module.Weights(context_, 0, {.x = x.view()});
  for (int64_t m = 0; m < 6; ++m) {
    std::vector<double> a(6);
    double total = 0;
    for (int64_t n = 0; n < 6; ++n) {
      const std::vector<double> q = turned(p.w_q, m), k = turned(p.w_k, n);
      double z = 0;
      for (int64_t i = 0; i < 4; ++i) z += q[i] * k[i];
      total += a[n] = std::exp(z / 2);
    }
    for (int64_t n = 0; n < 6; ++n) {
      EXPECT_NEAR(weights.As<float>()[m * 6 + n], a[n] / total, 1e-5);
    }
  }
}

TEST_F(MultiHeadDecode, WhatIsKeptIsWhatAttentionRead) {
  const MultiHeadAttention module({.d_model = 8, .heads = 2}, 3);
  const Tensor x = Random({2, 3, 8}, 1);
  MultiHeadAttentionActivations kept;
  EXPECT_FALSE(kept.q());
  Tensor out(DType::kF32, {2, 3, 8});
  module.Forward(context_, {.x = x.view()}, out.view(), &kept);
  EXPECT_EQ(ToString(kept.v()), "f32 [2, 3, 2, 4]");
  EXPECT_EQ(ToString(kept.lse()), "f32 [2, 2, 3]");
  EXPECT_FALSE(kept.ungated());
  const MultiHeadAttentionActivations moved = std::move(kept);
  EXPECT_TRUE(moved.heads());
}

TEST_F(MultiHeadDecode, RefusesWhatCannotBe) {
  EXPECT_THROW(Resolve({.d_model = 6, .heads = 2, .rotary_base = 10}), Error);
  EXPECT_THROW(Resolve({.d_model = 8, .heads = 2, .rotary_base = -1}), Error);
  EXPECT_THROW(
      Resolve({.d_model = 8, .heads = 2, .rotary_base = 10, .rotary_dim = 6}),
      Error);
  EXPECT_THROW(
      Resolve({.d_model = 8, .heads = 2, .source_dim = 4, .rotary_base = 10}),
      Error);
  const MultiHeadAttention module({.d_model = 8, .heads = 2, .rotary_base = 10},
                                  3);
  const Tensor x = Random({1, 3, 8}, 1);
  EXPECT_THROW(module.Forward(context_, {.x = x.view(), .source = x.view()}),
               Error);
  EXPECT_THROW(Cache(context_, module.config(), 0, 4), Error);
  Cache cache(context_, module.config(), 1, 4);
  EXPECT_THROW(module.Remember(context_, x.view(), cache), Error);
  Cache two(context_, module.config(), 2, 4);
  EXPECT_THROW(module.Forward(context_, {.x = x.view(), .cache = &two}), Error);
  MultiHeadAttentionActivations kept;
  Tensor out(DType::kF32, {1, 3, 8});
  EXPECT_THROW(module.Forward(context_, {.x = x.view(), .cache = &cache},
                              out.view(), &kept),
               Error);
}

}  // namespace
}  // namespace headwise::multi_head_decode_test
