// Output gates: what a replacement is behind them, and where their weights
// stand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/error.h"
#include "headwise/nn/attention_for_test.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/head_slices.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise::nn_test::output_gate_test {
namespace {

// A head closed by a hook is replaced by what W_O is to read, whatever the
// gate of its channels.
TEST(OutputGateTest, AReplacementIsNotGated) {
  Case c;
  c.gate = Gate::kChannel;
  TestValues values;
  const AttentionLayer layer = MakeLayer(values, c, "a");
  class Replacing : public RunHooks {
   public:
    void BeforeAttention(const AttentionSite&, const AttentionProblem& problem,
                         AttentionArgs& args) override {
      const int64_t rows = args.q.shape[1];
      args.gates =
          Broadcast(ConstTensorView(gates, DType::kF32, {4}), {1, rows, 4});
      args.replacement =
          Broadcast(ConstTensorView(means, DType::kF32, {4, problem.value_dim}),
                    {1, rows, 4, problem.value_dim});
    }
    bool Wants(std::string_view name) const override {
      return name.ends_with(".head_output");
    }
    void Take(std::string_view, ConstTensorView value) override {
      Context context({1, ""});
      output = ToVector<float>(context, value);
    }
    float gates[4] = {1, 0, 0.25f, 1};
    float means[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    std::vector<float> output;
  };
  Context context({1, ""});
  const int64_t lengths[] = {3};
  const SequenceBatch batch = MakeBatch(lengths);
  const Tensor x = RandomTensor({3, kWidth}, 3);
  Tensor y(DType::kF32, {3, kWidth});
  Replacing hooks;
  AttentionInput input;
  input.x = x.view();
  input.batch = &batch;
  input.hooks = &hooks;
  layer.Forward(context, input, y.view(), Store::kOverwrite);
  Numbers expected = Calculate(c, layer, Wide(x, 0, 3 * kWidth), {}).heads;
  for (int64_t i = 0; i < std::ssize(expected); ++i) {
    const double gate = hooks.gates[i / 4 % 4];
    expected[i] = gate * expected[i] + (1 - gate) * hooks.means[i % 16];
  }
  ExpectNear(hooks.output, expected);
}

// Queries [D] and gates [D] of each head side by side in one tensor.
TEST(OutputGateTest, GatesMayStandBesideTheQueriesHeadByHead) {
  TestValues values;
  const Parameter weight = values.Make("q.weight", {12, kWidth});
  const Parameter bias = values.Make("q.bias", {12});
  const Linear queries(EachOf(weight, bias, 2, {0, 3}), WeightLayout::kOutIn);
  const Linear gates(EachOf(weight, bias, 2, {3, 6}), WeightLayout::kOutIn);
  Context context({1, ""});
  const Tensor x = RandomTensor({4, kWidth}, 3);
  const Linear both({{weight, bias}}, WeightLayout::kOutIn);
  Tensor whole(DType::kF32, {4, 12}), q(DType::kF32, {4, 6});
  both.Forward(context, x.view(), whole.view());
  queries.Forward(context, x.view(), q.view());
  const Temp g = OutputGate(gates).Forward(context, x.view(), DType::kF32);
  const auto gate = ToVector<float>(context, g.view());
  for (int64_t i = 0; i < 24; ++i) {
    const float* head = whole.As<float>() + i / 6 * 12 + i / 3 % 2 * 6;
    EXPECT_NEAR(q.As<float>()[i], head[i % 3], 1e-6);
    EXPECT_NEAR(gate[i], 1 / (1 + std::exp(-head[3 + i % 3])), 1e-6);
  }
  EXPECT_THROW(EachOf(weight, bias, 5, {0, 1}), Error);
}

}  // namespace
}  // namespace headwise::nn_test::output_gate_test
