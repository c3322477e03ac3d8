// A mixture whose rows are grouped by head against all heads with gates, and
// against finite differences.
#include "headwise/nn/attention_by_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/ops/copy/copy.h"

namespace headwise::attention_by_head_test {
namespace {

constexpr int64_t kWidth = 10, kHeads = 6, kDim = 4;

struct Case {
  const char* name;
  int64_t groups = kHeads;
  int64_t shared = 1;
  bool turned = false, normed = false, biased = false, cross = false;
  WeightLayout layout = WeightLayout::kOutIn;
  float head_dropout = 0;
  AttentionMask mask = AttentionMask::Causal();
  int64_t original_context = 0;  // positions turn by the length of the call
};

// Whoever watches sees every head: the layer then runs all with gates of 0.
class Watcher : public RunHooks {};

// Of absolute values.
float Largest(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

class ByHeadTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Case& one = GetParam();
    const int64_t keys = one.groups * kDim, queries = kHeads * kDim;
    AttentionWeights weights;
    if (one.cross) {
      weights.of_x = Make({queries});
      weights.of_memory = Make({keys, keys});
      input_.memory = Random({kKeys, kWidth}, 1).value.view();
      memory_ = &values_.back();
      input_.memory_batch = &memory_batch_;
    } else {
      weights.of_x = Make({queries, keys, keys});
    }
    weights.output = Make({kWidth}, queries);
    if (one.turned) {
      RopeConfig rope = {.head_dim = kDim};
      if (one.original_context > 0) {
        rope.scaling = RopeScaling::kDynamic;
        rope.factor = 4;
        rope.original_context = one.original_context;
      }
      weights.rope = std::make_shared<RopeTable>(rope);
    }
    if (one.normed) {
      weights.query_norm = Norm(NormKind::kRms, 1e-5f, Vector(kDim), {});
      weights.key_norm = Norm(NormKind::kRms, 1e-5f, Vector(kDim), {});
    }
    std::vector<Linear::Part> router;
    router.push_back(Part(kHeads - one.shared, kWidth));
    if (one.shared > 0) {
      router.push_back(Part(one.shared, kWidth));
      router.push_back(Part(2, kWidth));
    }
    weights.gates = HeadGates(
        {GateKind::kMixture, one.shared, 2 + one.shared / 2},
        {.router = Linear(std::move(router), WeightLayout::kOutIn)}, kHeads);
    AttentionLayerConfig config;
    config.heads = kHeads;
    config.kv_heads = one.groups;
    config.head_dim = kDim;
    config.mask = one.cross ? AttentionMask::None() : one.mask;
    layer_ = AttentionLayer(config, std::move(weights), {});
    training_.seed = 5;
    training_.loss = &penalty_;
    training_.balance = 0.3f;
    training_.head_dropout = one.head_dropout;
    x_ = &Random({kTokens, kWidth}, 1);
    r_ = std::move(Random({kTokens, kWidth}, 1).value);
    values_.pop_back();
    input_.x = std::as_const(x_->value).view();
    input_.batch = &batch_;
    input_.gate_draw = {&training_, 8};
  }

  struct Value {
    Tensor value, gradient;
  };
  Value& Random(const Shape& shape, float scale) {
    Value& made = values_.emplace_back();
    made.value = Tensor(DType::kF32, shape);
    made.gradient = Tensor(DType::kF32, shape);
    for (int64_t i = 0; i < made.value.size(); ++i) {
      made.value.As<float>()[i] = scale * static_cast<float>(rng_.Normal());
    }
    return made;
  }
  Parameter Trainable(const Shape& shape) {
    Value& made = Random(shape, 0.5f);
    return {"w", std::as_const(made.value).view(), made.gradient.view()};
  }
  Parameter Vector(int64_t size) { return Trainable({size}); }
  Linear::Part Part(int64_t out, int64_t in) {
    return {Trainable({out, in}), {}};
  }
  Linear Make(const std::vector<int64_t>& outs, int64_t in = kWidth) {
    std::vector<Linear::Part> parts;
    const bool out_in = GetParam().layout == WeightLayout::kOutIn;
    for (const int64_t out : outs) {
      parts.push_back({Trainable(out_in ? Shape{out, in} : Shape{in, out}),
                       GetParam().biased ? Vector(out) : Parameter()});
    }
    return {std::move(parts), GetParam().layout};
  }

  // ⟨y, r⟩ and penalties; y begins as 1.
  double Loss(RunHooks* hooks) {
    penalty_ = 0;
    saved_ = {};
    input_.hooks = hooks;
    input_.saved = &saved_;
    Fill(context_, 1, y_.view());
    layer_.Forward(context_, input_, y_.view(), Store::kAccumulate);
    double sum = penalty_;
    for (int64_t i = 0; i < y_.size(); ++i) {
      sum += static_cast<double>(y_.As<float>()[i]) * r_.As<float>()[i];
    }
    return sum;
  }

  // y and all gradients.
  std::vector<std::vector<float>> Run(RunHooks* hooks) {
    for (Value& one : values_) Fill(context_, 0, one.gradient.view());
    Loss(hooks);
    Fill(context_, 7, x_->gradient.view());  // is overwritten
    layer_.Backward(
        context_, input_, saved_, std::as_const(r_).view(), x_->gradient.view(),
        memory_ != nullptr ? memory_->gradient.view() : TensorView());
    std::vector<std::vector<float>> all = {
        ToVector<float>(context_, y_.view())};
    for (Value& one : values_) {
      all.push_back(ToVector<float>(context_, one.gradient.view()));
    }
    return all;
  }

  static constexpr int64_t kTokens = 47, kKeys = 33;
  Context context_{{2, ""}};
  Rng rng_{3};
  std::list<Value> values_;
  Value* x_ = nullptr;
  Value* memory_ = nullptr;
  Tensor r_, y_{DType::kF32, {kTokens, kWidth}};
  SequenceBatch batch_ = MakeBatch(std::vector<int64_t>{26, 21});
  SequenceBatch memory_batch_ = MakeBatch(std::vector<int64_t>{13, 20});
  AttentionLayer layer_;
  AttentionInput input_;
  AttentionSaved saved_;
  GateTraining training_;
  double penalty_ = 0;
  Watcher watcher_;
};

TEST_P(ByHeadTest, GivesWhatAllHeadsWithGatesGive) {
  const auto all = Run(&watcher_);
  ASSERT_EQ(saved_.by_head, nullptr);
  const auto rows = Run(nullptr);
  ASSERT_NE(saved_.by_head, nullptr);
  // Gradients cancel (of a key's bias to nothing): what is left of them is as
  // inexact as the largest of all.
  float scale = 1;
  for (const auto& one : all) scale = std::max(scale, Largest(one));
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_THAT(rows[i],
                testing::Pointwise(testing::FloatNear(1e-5f * scale), all[i]))
        << i;
  }
}

TEST_P(ByHeadTest, WorksForTheTokensThatChoseAHeadAlone) {
  Loss(nullptr);
  const std::vector<float> gates =
      ToVector<float>(context_, saved_.by_head->gates.gates.view());
  const auto chosen = std::count_if(gates.begin(), gates.end(),
                                    [](float gate) { return gate != 0; });
  EXPECT_LT(chosen, kTokens * kHeads / 2 + 1);
  EXPECT_EQ(saved_.by_head->args.q.shape[1], chosen);
  EXPECT_EQ(saved_.by_head->args.out.shape[1], chosen);
}

TEST_P(ByHeadTest, GradientsAreDifferencesOfTheLoss) {
  Run(nullptr);
  const std::vector<int32_t> chosen = saved_.by_head->rows.slots;
  int64_t checked = 0, turned = 0;
  for (Value& one : values_) {
    for (int64_t i = 0; i < one.value.size(); i += 7) {
      float& w = one.value.As<float>()[i];
      const float kept = w;
      bool turns = false;  // a choice: the loss jumps there
      const auto at = [&](double step) {
        w = kept + static_cast<float>(step);
        const double loss = Loss(nullptr);
        turns = turns || saved_.by_head->rows.slots != chosen;
        return loss;
      };
      const double h = 0.016;  // differences of f32 sums: large steps
      const double slope =
          (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      w = kept;
      ++(turns ? turned : checked);
      if (turns) continue;
      EXPECT_NEAR(one.gradient.As<float>()[i], slope,
                  3e-3 * std::max(1.0, std::abs(slope)))
          << i << " of " << one.value.size();
    }
  }
  EXPECT_LT(turned, checked / 4);
  EXPECT_GT(checked, 50);
}

// A prompt in pieces, and what a cache then holds.
TEST_P(ByHeadTest, PromptsPassThroughACacheAlike) {
  const Case& one = GetParam();
  if (one.cross) GTEST_SKIP() << "whose cache is filled elsewhere";
  input_.gate_draw = {};
  const auto run = [&](RunHooks* hooks) {
    Tensor k(DType::kF32, {2, 48, one.groups, kDim});
    Tensor v(DType::kF32, {2, 48, one.groups, kDim});
    std::vector<int32_t> lengths = {0, 0};
    std::vector<float> all;
    for (int piece = 0; piece < 2; ++piece) {
      SequenceBatch batch = MakeBatch(std::vector<int64_t>{22, 22});
      for (int32_t& position : batch.positions) position += 22 * piece;
      const CacheView cache = {k.view(), v.view(), lengths};
      AttentionInput input;
      input.x = Rows(input_.x, piece, piece + 44);
      input.batch = &batch;
      input.cache = &cache;
      input.hooks = hooks;
      Tensor y(DType::kF32, {44, kWidth});
      layer_.Forward(context_, input, y.view(), Store::kOverwrite);
      const auto values = ToVector<float>(context_, y.view());
      all.insert(all.end(), values.begin(), values.end());
      for (int32_t& length : lengths) length += 22;
    }
    const auto keys = ToVector<float>(context_, k.view());
    all.insert(all.end(), keys.begin(), keys.end());
    return all;
  };
  const std::vector<float> all = run(&watcher_);
  EXPECT_THAT(run(nullptr), testing::Pointwise(
                                testing::FloatNear(1e-5f * Largest(all)), all));
}

INSTANTIATE_TEST_SUITE_P(
    Layers, ByHeadTest,
    testing::Values(
        Case{.name = "Plain", .shared = 0}, Case{.name = "Shared"},
        Case{.name = "Groups", .groups = 2, .turned = true, .normed = true},
        Case{.name = "Biases",
             .groups = 3,
             .biased = true,
             .layout = WeightLayout::kInOut},
        Case{.name = "Window",
             .turned = true,
             .mask = AttentionMask::SlidingWindow(7, 0, 2)},
        Case{.name = "Dynamic", .turned = true, .original_context = 20},
        Case{.name = "Dropout", .shared = 2, .head_dropout = 0.4f},
        Case{.name = "Cross", .groups = 3, .normed = true, .cross = true}),
    [](const auto& info) { return info.param.name; });

// Rows that could be taken for sequences.
TEST(HeadRowsTest, AsManyRowsAsSequencesAreNotMistakenForThem) {
  const SequenceBatch batch = MakeBatch(std::vector<int64_t>{2});
  // Two tokens, three heads: 1, 0, 2 rows of each.
  const std::vector<float> gates = {1, 0, 1, 0, 0, 1};
  const HeadRows rows = GroupByHead(gates, {{5}, {2}}, batch);
  EXPECT_THAT(rows.tokens, testing::ElementsAre(0, 0, 1));
  EXPECT_THAT(rows.slots, testing::ElementsAre(0, 2, 5));
  EXPECT_THAT(rows.places, testing::ElementsAre(5, 5, 6));
  EXPECT_THAT(rows.query_starts, testing::ElementsAre(0, 1, 1, 3, 3));
  EXPECT_THAT(rows.key_starts, testing::ElementsAre(0, 2, 4, 6, 6));
  EXPECT_THAT(rows.heads, testing::ElementsAre(0, 1, 1, 3));
}

}  // namespace
}  // namespace headwise::attention_by_head_test
