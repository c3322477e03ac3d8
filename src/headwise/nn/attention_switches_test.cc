// What layers may have beyond queries, keys and values of one width: sink
// logits, output gates, values of their own width, keys that are values, scores
// biased by distance, norms of heads.
// Against the formula in f64, and by finite differences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/nn/attention_for_test.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/cache_split.h"
#include "headwise/nn/head_slices.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise::nn_test::switches_test {
namespace {

// One gate a head, whose gradient is wanted too; and what W_O reads.
class Hooks : public RunHooks {
 public:
  Hooks(TestValues& values, const Case& c, int64_t rows)
      : values_(values), heads_(c.heads), gated_(c.hooked) {
    if (!gated_) return;
    values.Make("hook", {heads_}, 0.7f);
    dgates_ = Tensor(DType::kF32, {1, rows, heads_});
  }
  Numbers gates() const {
    if (!gated_) return {};
    const auto* g = values_.value("hook").As<float>();
    return {g, g + heads_};
  }
  const std::vector<float>& heads() const { return output_; }

  void BeforeAttention(const AttentionSite&, const AttentionProblem&,
                       AttentionArgs& args) override {
    if (!gated_) return;
    args.gates = Broadcast(std::as_const(values_.value("hook")).view(),
                           {args.q.shape[0], args.q.shape[1], heads_});
  }
  void BeforeAttentionBackward(const AttentionSite&, const AttentionProblem&,
                               const AttentionArgs&,
                               AttentionGrads& grads) override {
    if (gated_) grads.dgates = dgates_.view();
  }
  void AfterAttentionBackward(const AttentionSite&, const AttentionProblem&,
                              const AttentionArgs&,
                              const AttentionGrads&) override {
    for (int64_t i = 0; gated_ && i < dgates_.size(); ++i) {
      values_.gradient("hook").As<float>()[i % heads_] +=
          dgates_.As<float>()[i];
    }
  }
  bool Wants(std::string_view name) const override {
    return name.ends_with(".head_output");
  }
  void Take(std::string_view, ConstTensorView value) override {
    Context context({1, ""});
    output_ = ToVector<float>(context, value);
  }

 private:
  TestValues& values_;
  int64_t heads_;
  bool gated_;
  Tensor dgates_;
  std::vector<float> output_;
};

class Switches : public testing::TestWithParam<uint64_t> {
 protected:
  Context context_{{2, ""}};
};

TEST_P(Switches, ForwardIsTheFormulaAndBackwardItsSlope) {
  const Case c = CaseOf(GetParam());
  TestValues values(GetParam());
  const AttentionLayer layer = MakeLayer(values, c, "a");
  const int64_t lengths[] = {5, 3};
  const SequenceBatch batch = MakeBatch(lengths);
  values.Make("x", {8, kWidth});
  Hooks hooks(values, c, 8);
  const Tensor r = RandomTensor({8, kWidth}, 9);
  Tensor y(DType::kF32, {8, kWidth});
  AttentionSaved saved;
  AttentionInput input;
  input.x = std::as_const(values.value("x")).view();
  input.batch = &batch;
  input.hooks = &hooks;
  input.saved = &saved;
  const auto loss = [&] {
    layer.Forward(context_, input, y.view(), Store::kOverwrite);
    return Dot(y, r);
  };
  loss();
  Numbers expected, heads;
  for (const auto& [begin, rows] : {std::pair(0, 5), {5, 3}}) {
    const Formula one = Calculate(
        c, layer, Wide(values.value("x"), begin * kWidth, rows * kWidth),
        hooks.gates());
    expected.insert(expected.end(), one.y.begin(), one.y.end());
    heads.insert(heads.end(), one.heads.begin(), one.heads.end());
  }
  ExpectNear(ToVector<float>(context_, y.view()), expected);
  ExpectNear(hooks.heads(), heads);
  layer.Backward(context_, input, saved, r.view(), values.gradient("x").view(),
                 {});
  values.Check(loss, 3);
}

// Two sequences, eight tokens in pieces of 5, 1 and 2; and with a cache by
// role whose heads keep everything.
TEST_P(Switches, PiecesOverACacheGiveWhatTheWholeGives) {
  const Case c = CaseOf(GetParam());
  TestValues values(GetParam());
  const AttentionLayer layer = MakeLayer(values, c, "a");
  const Tensor x = RandomTensor({16, kWidth}, 3);
  for (const bool split : {false, true}) {
    SCOPED_TRACE(split ? "by role" : "one for all");
    // Refused, in relative_bias_test.cc.
    if (split && (c.biased || c.sloped)) continue;
    Tensor k(DType::kF32, {2, 8, c.groups, c.dim});
    Tensor v(DType::kF32, {2, 8, c.groups, c.value});
    std::vector<int32_t> lengths = {0, 0};
    CacheSplit parts;
    for (int64_t g = 0; g < c.groups; ++g) {
      parts.parts.push_back({.first_group = g,
                             .groups = 1,
                             .k = Slice(k.view(), 2, g, g + 1),
                             .v = Slice(v.view(), 2, g, g + 1)});
    }
    CacheView cache = {.lengths = lengths};
    split ? void(cache.split = &parts)
          : void((cache.k = k.view(), cache.v = v.view()));
    Numbers found;
    for (const int64_t rows : {5, 1, 2}) {
      SequenceBatch batch = MakeBatch(std::vector<int64_t>{rows, rows});
      for (int32_t& position : batch.positions) position += lengths[0];
      Tensor piece(DType::kF32, {2 * rows, kWidth});
      for (int64_t b = 0; b < 2; ++b) {
        std::copy_n(x.As<float>() + (b * 8 + lengths[0]) * kWidth,
                    rows * kWidth, piece.As<float>() + b * rows * kWidth);
      }
      AttentionInput input;
      input.x = std::as_const(piece).view();
      input.batch = &batch;
      input.cache = &cache;
      Tensor y(DType::kF32, {2 * rows, kWidth});
      layer.Forward(context_, input, y.view(), Store::kOverwrite);
      for (int64_t b = 0; b < 2; ++b) {
        const Formula whole =
            Calculate(c, layer, Wide(x, b * 8 * kWidth, 8 * kWidth), {});
        ExpectNear(Wide(y, b * rows * kWidth, rows * kWidth),
                   ColumnsOf(whole.y, std::ssize(whole.y), lengths[0] * kWidth,
                             rows * kWidth));
      }
      for (int32_t& length : lengths) length += static_cast<int32_t>(rows);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Switches, testing::Range<uint64_t>(0, 24));

// Keys of the memory that are its values too.
TEST(CrossAttention, KeysAreValues) {
  Case c;
  c.keys_are_values = true;
  c.normed = true;
  TestValues values;
  AttentionWeights w;
  w.of_x = values.MakeLinear("q", {16}, kWidth);
  w.of_memory = values.MakeLinear("k", {8}, kWidth);
  w.output = values.MakeLinear("o", {kWidth}, 16);
  w.key_norm = Norm(NormKind::kRms, kEpsilon, values.Make("kn", {4}, 1), {});
  w.query_norm = Norm(NormKind::kRms, kEpsilon, values.Make("qn", {4}, 1), {});
  w.sinks = headwise::Values(values.Make("s", {4}));
  const AttentionLayer layer(
      {.heads = 4, .kv_heads = 2, .head_dim = 4, .keys_are_values = true},
      std::move(w), {AttentionKind::kCross, 0, "a"});
  values.Make("x", {3, kWidth});
  values.Make("memory", {5, kWidth});
  const SequenceBatch batch = MakeBatch(std::vector<int64_t>{3});
  const SequenceBatch memory = MakeBatch(std::vector<int64_t>{5});
  Context context({1, ""});
  AttentionSaved saved;
  AttentionInput input;
  input.x = std::as_const(values.value("x")).view();
  input.memory = std::as_const(values.value("memory")).view();
  input.batch = &batch;
  input.memory_batch = &memory;
  input.saved = &saved;
  const Tensor r = RandomTensor({3, kWidth}, 9);
  Tensor y(DType::kF32, {3, kWidth});
  const auto loss = [&] {
    layer.Forward(context, input, y.view(), Store::kOverwrite);
    return Dot(y, r);
  };
  loss();
  layer.Backward(context, input, saved, r.view(), values.gradient("x").view(),
                 values.gradient("memory").view());
  values.Check(loss);

  // The same from a cache that was filled once.
  Tensor k(DType::kF32, {1, 5, 2, 4}), v(DType::kF32, {1, 5, 2, 4});
  std::vector<int32_t> lengths = {0};
  const CacheView cache = {k.view(), v.view(), lengths};
  layer.FillCache(context, input.memory, cache);
  lengths[0] = 5;
  loss();
  const Numbers expected = Wide(y, 0, y.size());
  input.saved = nullptr;
  input.cache = &cache;
  loss();
  ExpectNear(ToVector<float>(context, y.view()), expected);
}

// Rows grouped by head would leave out what is special: all heads are run.
TEST(Mixture, WithSinkLogitsRunsAllHeads) {
  for (const bool sinks : {false, true}) {
    TestValues values;
    Case c;
    c.sinks = sinks;
    AttentionLayer layer = MakeLayer(values, c, "a");
    AttentionWeights weights = layer.weights();
    weights.gates =
        HeadGates({.kind = GateKind::kMixture, .active = 2},
                  {.router = values.MakeLinear("r", {4}, kWidth)}, 4);
    layer = AttentionLayer(layer.config(), weights, layer.site());
    const SequenceBatch batch = MakeBatch(std::vector<int64_t>{20});
    const Tensor x = RandomTensor({20, kWidth}, 3);
    Tensor y(DType::kF32, {20, kWidth});
    Context context({1, ""});
    AttentionSaved saved;
    AttentionInput input;
    input.x = x.view();
    input.batch = &batch;
    input.saved = &saved;
    layer.Forward(context, input, y.view(), Store::kOverwrite);
    EXPECT_EQ(saved.by_head == nullptr, sinks);
  }
}

// Pruning takes a head's sink logit and its rows of the gate.
TEST(HeadSlicesOfSwitches, AreTheHeadsOwn) {
  Case c;
  c.value = 3;
  c.sinks = true;
  for (const Gate gate : {Gate::kHead, Gate::kChannel}) {
    c.gate = gate;
    TestValues values;
    const AttentionLayer layer = MakeLayer(values, c, "a");
    const int64_t each = gate == Gate::kHead ? 1 : c.value;
    std::vector<std::string> found;
    for (const StoredSlice& slice : SlicesOfHead(layer, 2)) {
      found.push_back(slice.of->name + " " + std::to_string(slice.first) + "+" +
                      std::to_string(slice.count));
    }
    const std::string places =
        std::to_string(2 * each) + "+" + std::to_string(each);
    EXPECT_THAT(found, testing::UnorderedElementsAre(
                           "a.qkv.0.weight 8+4", "a.qkv.0.bias 8+4",
                           "a.o.0.weight 6+3", "a.s 2+1",
                           "a.g.0.weight " + places, "a.g.0.bias " + places));
  }
  c.value = c.dim;
  c.keys_are_values = true;
  TestValues values;
  const AttentionLayer layer = MakeLayer(values, c, "a");
  EXPECT_EQ(SlicesOfGroup(layer, 1).size(), 2);  // a key and its bias
  EXPECT_STREQ(layer.Special(), "sink logits");
}

TEST(AttentionSenseTest, WhatDoesNotFitIsRefused) {
  const auto refused = [](const Case& c, auto&& change) {
    TestValues values;
    const AttentionLayer good = MakeLayer(values, c, "a");
    AttentionLayerConfig config = good.config();
    AttentionWeights weights = good.weights();
    change(values, config, weights);
    try {
      const AttentionLayer bad(config, weights, good.site());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto nothing = [](TestValues&, auto&, auto&) {};
  EXPECT_EQ(refused({}, nothing), "");
  EXPECT_THAT(refused({},
                      [](TestValues& values, auto&, AttentionWeights& w) {
                        w.sinks = headwise::Values(values.Make("s", {3}));
                      }),
              testing::HasSubstr("sink logits [4]"));
  EXPECT_THAT(refused({},
                      [](TestValues& values, auto&, AttentionWeights& w) {
                        w.output_gate =
                            OutputGate(values.MakeLinear("g", {8}, kWidth));
                      }),
              testing::HasSubstr("4 heads or 16 channels"));
  EXPECT_THAT(refused({},
                      [](auto&, auto&, AttentionWeights& w) {
                        w.alibi = AlibiSlopes(2, {0, 1});
                      }),
              testing::HasSubstr("a relative bias of 4 heads"));
  EXPECT_THAT(
      refused({.value = 3}, [](auto&, AttentionLayerConfig& config,
                               auto&) { config.keys_are_values = true; }),
      testing::HasSubstr("projected columns"));
  EXPECT_THAT(refused({}, [](auto&, AttentionLayerConfig& config,
                             auto&) { config.keys_of = 1; }),
              testing::HasSubstr("16 projected columns"));
}

}  // namespace
}  // namespace headwise::nn_test::switches_test
