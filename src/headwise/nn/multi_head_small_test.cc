// Small calls: what they take, and that they give what the layer gives.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/multi_head_attention.h"

namespace {

// Calls of operator new by this thread.
thread_local int64_t taken = 0;

}  // namespace

void* operator new(size_t bytes) {
  ++taken;
  if (void* data = std::malloc(bytes)) return data;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++taken;
  return std::malloc(bytes);
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept {
  std::free(data);
}
void operator delete(void* data, size_t) noexcept { std::free(data); }

namespace headwise::multi_head_small_test {
namespace {

Tensor Random(const Shape& shape, uint64_t seed) {
  Tensor x(DType::kF32, shape);
  Rng rng(seed);
  for (int64_t i = 0; i < x.size(); ++i) {
    x.As<float>()[i] = static_cast<float>(rng.Normal());
  }
  return x;
}

// Biases too are random.
MultiHeadAttention Module(MultiHeadAttentionConfig config) {
  MultiHeadAttention module(config, 3);
  if (!config.bias) return module;
  MultiHeadAttentionParameters& p = module.parameters();
  for (Tensor* bias : {&p.b_q, &p.b_k, &p.b_v, &p.b_o}) {
    const Tensor random = Random({bias->size()}, 5);
    std::memcpy(bias->As<float>(), random.As<float>(), random.bytes());
  }
  return module;
}

const std::vector<MultiHeadAttentionConfig> kConfigs = {
    {.d_model = 16, .heads = 1},
    {.d_model = 16, .heads = 4, .bias = true},
    {.d_model = 16, .heads = 4, .kv_heads = 2},
    {.d_model = 16, .heads = 2, .rotary_base = 10000},
    {.d_model = 12, .heads = 3, .head_dim = 5, .bias = true},
    {.d_model = 64, .heads = 1},
};

TEST(SmallMultiHeadCall, TakesNoMemoryAfterTheFirst) {
  for (const int threads : {1, 2}) {
    Context context({.threads = threads});
    for (const MultiHeadAttentionConfig& config : kConfigs) {
      const MultiHeadAttention module = Module(config);
      for (const int64_t rows : {1, 4, 8, 20}) {
        const Tensor x = Random({2, rows, config.d_model}, 1);
        Tensor out(DType::kF32, {2, rows, config.d_model});
        const auto call = [&] {
          module.Forward(context,
                         {.x = x.view(), .mask = AttentionMask::Causal()},
                         out.view());
        };
        for (int i = 0; i < 3; ++i) call();
        const int64_t before = taken;
        call();
        EXPECT_EQ(taken - before, 0) << config.d_model << " wide, " << rows
                                     << " rows, " << threads << " threads";
      }
    }
  }
}

TEST(SmallMultiHeadCall, GivesTheLayersBits) {
  Context context({.threads = 2});
  for (const MultiHeadAttentionConfig& config : kConfigs) {
    const MultiHeadAttention module = Module(config);
    for (const int64_t batch : {1, 2}) {
      for (const int64_t rows : {1, 2, 4, 7}) {
        const Tensor x = Random({batch, rows, config.d_model}, rows);
        MultiHeadAttentionInput input{.x = x.view()};
        if (rows > 2) input.mask = AttentionMask::Causal();
        Tensor small(DType::kF32, {batch, rows, config.d_model});
        module.Forward(context, input, small.view());
        // Lengths are no part of small calls.
        const std::vector<int32_t> all(batch, static_cast<int32_t>(rows));
        input.key_lengths = {all.data(), DType::kI32, {batch}};
        Tensor whole(DType::kF32, {batch, rows, config.d_model});
        module.Forward(context, input, whole.view());
        EXPECT_EQ(
            std::memcmp(small.As<float>(), whole.As<float>(), small.bytes()), 0)
            << config.d_model << " wide, " << batch << " × " << rows;
      }
    }
  }
}

TEST(SmallMultiHeadCall, IsRefusedAsOthersAre) {
  Context context({.threads = 1});
  MultiHeadAttention module({.d_model = 16, .heads = 2}, 3);
  const Tensor x = Random({1, 4, 16}, 1);
  float* const weights = module.parameters().w_o.As<float>();
  EXPECT_THROW(
      module.Forward(context, {.x = x.view()}, View(weights + 64, {1, 4, 16})),
      Error);
  Tensor out(DType::kF32, {1, 4, 16});
  AttentionMask mask;
  mask.sinks = -1;
  EXPECT_THROW(
      module.Forward(context, {.x = x.view(), .mask = mask}, out.view()),
      Error);
  EXPECT_THROW(module.Forward(context, {.x = x.view()},
                              View(out.As<float>(), {1, 4, 15})),
               Error);
}

}  // namespace
}  // namespace headwise::multi_head_small_test
