// Backwards of layers against finite differences of their forwards. (Whole
// models are compared with PyTorch in tests/conformance.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/nn/block.h"
#include "headwise/ops/rope/rope.h"

namespace headwise::backward_test {
namespace {

// Trainable parameters and inputs by name, all random.
class Values {
 public:
  Parameter Make(const std::string& name, std::initializer_list<int64_t> shape,
                 float base = 0) {
    Pair& pair = pairs_[name];
    pair.value = Tensor(DType::kF32, shape);
    pair.gradient = Tensor(DType::kF32, shape);
    for (int64_t i = 0; i < pair.value.size(); ++i) {
      pair.value.As<float>()[i] =
          base + 0.5f * static_cast<float>(rng_.Normal());
    }
    return {name, std::as_const(pair.value).view(), pair.gradient.view()};
  }
  Tensor& value(const std::string& name) { return pairs_.at(name).value; }
  Tensor& gradient(const std::string& name) { return pairs_.at(name).gradient; }

  // Gradients, now filled, against differences of loss(), a few of each.
  void Check(const std::function<double()>& loss) {
    for (auto& [name, pair] : pairs_) {
      for (int sample = 0; sample < 12; ++sample) {
        const int64_t i = rng_.Between(0, pair.value.size() - 1);
        float& w = pair.value.As<float>()[i];
        const float kept = w;
        auto at = [&](double step) {
          w = kept + static_cast<float>(step);
          return loss();
        };
        // Fourth order: f32 forwards allow no tiny step.
        const double h = 0.02;
        const double slope =
            (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
        w = kept;
        EXPECT_NEAR(pair.gradient.As<float>()[i], slope,
                    1e-3 * std::max(1.0, std::abs(slope)))
            << name << " [" << i << "]";
      }
    }
  }

 private:
  struct Pair {
    Tensor value, gradient;
  };
  std::map<std::string, Pair> pairs_;
  Rng rng_{11};
};

Tensor RandomTensor(std::initializer_list<int64_t> shape, uint64_t seed) {
  Tensor tensor(DType::kF32, shape);
  Rng rng(seed);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    tensor.As<float>()[i] = static_cast<float>(rng.Normal());
  }
  return tensor;
}

double Dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a.As<float>()[i]) * b.As<float>()[i];
  }
  return sum;
}

Linear MakeLinear(Values& values, const std::string& name,
                  std::vector<int64_t> outs, int64_t in,
                  WeightLayout layout = WeightLayout::kOutIn) {
  std::vector<Linear::Part> parts;
  for (size_t p = 0; p < outs.size(); ++p) {
    const std::string part = name + "." + std::to_string(p);
    parts.push_back({layout == WeightLayout::kOutIn
                         ? values.Make(part + ".weight", {outs[p], in})
                         : values.Make(part + ".weight", {in, outs[p]}),
                     values.Make(part + ".bias", {outs[p]})});
  }
  return Linear(std::move(parts), layout);
}

class Backward : public testing::Test {
 protected:
  Context context_{{2, ""}};
  Values values_;
};

TEST_F(Backward, LinearOfSeveralPartsInBothLayouts) {
  for (const WeightLayout layout :
       {WeightLayout::kOutIn, WeightLayout::kInOut}) {
    const Linear linear = MakeLinear(values_, "w", {5, 3}, 7, layout);
    values_.Make("x", {4, 7});
    const Tensor r = RandomTensor({4, 8}, 3);
    Tensor y(DType::kF32, {4, 8});
    auto loss = [&] {
      linear.Forward(context_, values_.value("x").view(), y.view());
      return Dot(y, r);
    };
    linear.Backward(context_, values_.value("x").view(), r.view(),
                    values_.gradient("x").view());
    values_.Check(loss);
  }
}

TEST_F(Backward, LinearAddsToWhatIsThere) {
  const Linear linear = MakeLinear(values_, "w", {3}, 2);
  values_.Make("x", {2, 2});
  const Tensor r = RandomTensor({2, 3}, 3);
  const ConstTensorView x = std::as_const(values_.value("x")).view();
  const TensorView dx = values_.gradient("x").view();
  linear.Backward(context_, x, r.view(), dx);
  const float once = dx.As<float>()[1];
  const float weight = values_.gradient("w.0.weight").As<float>()[1];
  linear.Backward(context_, x, r.view(), dx, Store::kAccumulate);
  EXPECT_FLOAT_EQ(dx.As<float>()[1], 2 * once);
  EXPECT_FLOAT_EQ(values_.gradient("w.0.weight").As<float>()[1], 2 * weight);
}

TEST_F(Backward, NormsOfBothKinds) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    const Norm norm(kind, 1e-5f, values_.Make("weight", {6}, 1),
                    values_.Make("bias", {6}));
    values_.Make("x", {3, 6});
    const Tensor r = RandomTensor({3, 6}, 5);
    Tensor y(DType::kF32, {3, 6});
    NormSaved saved;
    auto loss = [&] {
      norm.Forward(context_, values_.value("x").view(), y.view(), &saved);
      return Dot(y, r);
    };
    loss();
    norm.Backward(context_, values_.value("x").view(), saved, r.view(),
                  values_.gradient("x").view());
    values_.Check(loss);
  }
}

Mlp MakeMlp(Values& values, bool gated, int64_t width) {
  return Mlp(gated ? Activation::kSilu : Activation::kGeluTanh,
             gated ? MakeLinear(values, "gate", {9}, width) : Linear(),
             MakeLinear(values, "up", {9}, width),
             MakeLinear(values, "down", {width}, 9));
}

TEST_F(Backward, MlpPlainAndGated) {
  for (const bool gated : {false, true}) {
    const Mlp mlp = MakeMlp(values_, gated, 4);
    values_.Make("x", {5, 4});
    const Tensor r = RandomTensor({5, 4}, 7);
    Tensor y(DType::kF32, {5, 4});
    MlpSaved saved;
    auto loss = [&] {
      mlp.Forward(context_, values_.value("x").view(), y.view(),
                  Store::kOverwrite);
      return Dot(y, r);
    };
    mlp.ForwardSaving(context_, values_.value("x").view(), y.view(),
                      Store::kOverwrite, saved);
    const double saving = Dot(y, r);
    mlp.Backward(context_, values_.value("x").view(), saved, r.view(),
                 values_.gradient("x").view());
    EXPECT_EQ(saving, loss());
    values_.Check(loss);
  }
}

constexpr int64_t kWidth = 6, kHeadDim = 4;

// 4 query heads over 2 key heads, with every option that weights bring.
AttentionLayer MakeAttention(Values& values, const std::string& name,
                             bool cross, AttentionMask mask,
                             const RopeConfig& rope = {.head_dim = kHeadDim,
                                                       .base = 50}) {
  const int64_t q = 4 * kHeadDim, k = 2 * kHeadDim;
  AttentionWeights weights;
  if (cross) {
    weights.of_x = MakeLinear(values, name + ".q", {q}, kWidth);
    weights.of_memory = MakeLinear(values, name + ".kv", {k, k}, kWidth);
  } else {
    weights.of_x = MakeLinear(values, name + ".qkv", {q, k, k}, kWidth);
    weights.rope = std::make_shared<RopeTable>(rope);
  }
  weights.query_norm =
      Norm(NormKind::kRms, 1e-5f, values.Make(name + ".qn", {kHeadDim}, 1), {});
  weights.key_norm =
      Norm(NormKind::kRms, 1e-5f, values.Make(name + ".kn", {kHeadDim}, 1), {});
  weights.output = MakeLinear(values, name + ".o", {kWidth}, q);
  AttentionLayerConfig config;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = kHeadDim;
  config.mask = mask;
  return AttentionLayer(
      config, std::move(weights),
      {cross ? AttentionKind::kCross : AttentionKind::kSelf, 0, name});
}

// One gate a head, whose gradient is wanted too.
class Gates : public RunHooks {
 public:
  explicit Gates(Values& values, int64_t rows) : values_(values), rows_(rows) {
    values.Make("gates", {4}, 0.7f);
    dgates_ = Tensor(DType::kF32, {1, rows, 4});
  }
  void BeforeAttention(const AttentionSite&, const AttentionProblem&,
                       AttentionArgs& args) override {
    args.gates = ConstTensorView(values_.value("gates").As<float>(),
                                 DType::kF32, {1, rows_, 4});
    args.gates.stride = {0, 0, 1};
  }
  void BeforeAttentionBackward(const AttentionSite&, const AttentionProblem&,
                               const AttentionArgs&,
                               AttentionGrads& grads) override {
    grads.dgates = dgates_.view();
  }
  void AfterAttentionBackward(const AttentionSite&, const AttentionProblem&,
                              const AttentionArgs&,
                              const AttentionGrads&) override {
    for (int64_t i = 0; i < rows_ * 4; ++i) {
      values_.gradient("gates").As<float>()[i % 4] += dgates_.As<float>()[i];
    }
  }

 private:
  Values& values_;
  int64_t rows_;
  Tensor dgates_;
};

class BackwardOfRotations : public Backward,
                            public testing::WithParamInterface<RopeConfig> {};

TEST_P(BackwardOfRotations, AttentionWithNormsGroupsWindowAndGates) {
  const AttentionLayer layer = MakeAttention(
      values_, "a", false, AttentionMask::SlidingWindow(3), GetParam());
  const int64_t lengths[] = {5, 2};
  const SequenceBatch batch = MakeBatch(lengths);
  values_.Make("x", {7, kWidth});
  Gates gates(values_, 7);
  const Tensor r = RandomTensor({7, kWidth}, 9);
  Tensor y(DType::kF32, {7, kWidth});
  AttentionSaved saved;
  AttentionInput input;
  input.x = std::as_const(values_.value("x")).view();
  input.batch = &batch;
  input.hooks = &gates;
  input.saved = &saved;
  auto loss = [&] {
    layer.Forward(context_, input, y.view(), Store::kOverwrite);
    return Dot(y, r);
  };
  loss();
  layer.Backward(context_, input, saved, r.view(), values_.gradient("x").view(),
                 {});
  values_.Check(loss);
}

INSTANTIATE_TEST_SUITE_P(Plain, BackwardOfRotations,
                         testing::Values(RopeConfig{.head_dim = kHeadDim,
                                                    .base = 50}));
INSTANTIATE_TEST_SUITE_P(ShareOfNeighbours, BackwardOfRotations,
                         testing::Values(RopeConfig{
                             .head_dim = kHeadDim,
                             .turned = 2,
                             .scale = 1.3,
                             .pairs = RopePairs::kNeighbours}));
INSTANTIATE_TEST_SUITE_P(
    BeyondTheOriginalContext, BackwardOfRotations,
    testing::Values(RopeConfig{.head_dim = kHeadDim,
                               .base = 50,
                               .scaling = RopeScaling::kDynamic,
                               .factor = 2,
                               .original_context = 3},
                    RopeConfig{.head_dim = kHeadDim,
                               .base = 50,
                               .scaling = RopeScaling::kLongrope,
                               .original_context = 3,
                               .short_factors = {1, 1},
                               .long_factors = {1.5, 0.3},
                               .scale = 1.2}));

TEST_F(Backward, AttentionThatHasLostItsHeadsIsItsBias) {
  for (const bool cross : {false, true}) {
    Values values;
    AttentionWeights weights;
    if (cross) {
      weights.of_x = MakeLinear(values, "q", {0}, kWidth);
      weights.of_memory = MakeLinear(values, "kv", {0, 0}, kWidth);
    } else {
      weights.of_x = MakeLinear(values, "qkv", {0, 0, 0}, kWidth);
    }
    weights.output = MakeLinear(values, "o", {kWidth}, 0);
    AttentionLayerConfig config;
    config.heads = config.kv_heads = 0;
    config.head_dim = kHeadDim;
    const AttentionLayer layer(config, std::move(weights),
                               {AttentionKind::kSelf, 0, "none"});
    const int64_t lengths[] = {3};
    const SequenceBatch batch = MakeBatch(lengths);
    const Tensor x = RandomTensor({3, kWidth}, 1);
    const Tensor r = RandomTensor({3, kWidth}, 2);
    Tensor y(DType::kF32, {3, kWidth}), dx = RandomTensor({3, kWidth}, 3);
    Tensor dmemory(DType::kF32, {3, kWidth});
    AttentionSaved saved;
    AttentionInput input;
    input.x = input.memory = x.view();
    input.batch = input.memory_batch = &batch;
    input.saved = &saved;
    layer.Forward(context_, input, y.view(), Store::kOverwrite);
    layer.Backward(context_, input, saved, r.view(), dx.view(), dmemory.view());
    for (int64_t i = 0; i < 3 * kWidth; ++i) {
      EXPECT_EQ(y.As<float>()[i],
                values.value("o.0.bias").As<float>()[i % kWidth]);
      EXPECT_EQ(dx.As<float>()[i], 0);
      EXPECT_EQ(dmemory.As<float>()[i], 0);
    }
    for (int64_t i = 0; i < kWidth; ++i) {
      EXPECT_FLOAT_EQ(values.gradient("o.0.bias").As<float>()[i],
                      r.As<float>()[i] + r.As<float>()[i + kWidth] +
                          r.As<float>()[i + 2 * kWidth]);
    }
  }
}

TEST_F(Backward, CrossAttentionAddsToTheMemorysGradient) {
  const AttentionLayer layer =
      MakeAttention(values_, "a", true, AttentionMask::None());
  const int64_t lengths[] = {3, 2}, source_lengths[] = {2, 4};
  const SequenceBatch batch = MakeBatch(lengths);
  const SequenceBatch sources = MakeBatch(source_lengths);
  values_.Make("x", {5, kWidth});
  values_.Make("memory", {6, kWidth});
  const Tensor r = RandomTensor({5, kWidth}, 9);
  Tensor y(DType::kF32, {5, kWidth});
  AttentionSaved saved;
  AttentionInput input;
  input.x = std::as_const(values_.value("x")).view();
  input.batch = &batch;
  input.memory = std::as_const(values_.value("memory")).view();
  input.memory_batch = &sources;
  input.saved = &saved;
  auto loss = [&] {
    layer.Forward(context_, input, y.view(), Store::kOverwrite);
    return Dot(y, r);
  };
  loss();
  const TensorView dmemory = values_.gradient("memory").view();
  dmemory.As<float>()[0] = 1;
  layer.Backward(context_, input, saved, r.view(), values_.gradient("x").view(),
                 dmemory);
  dmemory.As<float>()[0] -= 1;
  values_.Check(loss);
}

TEST_F(Backward, BlocksOfBothNormPlacesWithCrossAttentionAndDropout) {
  for (const NormPlace place : {NormPlace::kPre, NormPlace::kPost}) {
    auto norm = [&](const std::string& name) {
      return Norm(NormKind::kLayer, 1e-5f,
                  values_.Make(name + ".w", {kWidth}, 1),
                  values_.Make(name + ".b", {kWidth}));
    };
    const Block block(
        "layer.0",
        {AttentionStep(
             place, norm("n1"),
             MakeAttention(values_, "self", false, AttentionMask::Causal())),
         CrossStep(
             place, norm("n2"),
             MakeAttention(values_, "cross", true, AttentionMask::None())),
         MlpStep(place, norm("n3"), MakeMlp(values_, true, kWidth))});
    const int64_t lengths[] = {4}, source_lengths[] = {3};
    const SequenceBatch batch = MakeBatch(lengths);
    const SequenceBatch sources = MakeBatch(source_lengths);
    values_.Make("x", {4, kWidth});
    values_.Make("memory", {3, kWidth});
    const Tensor r = RandomTensor({4, kWidth}, 9);
    BlockSaved saved;
    BlockInput input;
    input.batch = &batch;
    input.memory = std::as_const(values_.value("memory")).view();
    input.memory_batch = &sources;
    input.dropout = {0.3f, 5, 8};
    input.saved = &saved;
    Tensor x(DType::kF32, {4, kWidth});
    auto loss = [&] {
      std::copy_n(values_.value("x").As<float>(), x.size(), x.As<float>());
      block.Forward(context_, input, x.view());
      return Dot(x, r);
    };
    loss();
    std::copy_n(r.As<float>(), r.size(), values_.gradient("x").As<float>());
    block.Backward(context_, input, values_.gradient("x").view(),
                   values_.gradient("memory").view());
    values_.Check(loss);
  }
}

// Steps as data: two that are added to one sum, two that share an input, norms
// and scales of what is added.
enum class Steps : uint8_t { kBeside, kShared, kSandwich, kThree };

std::vector<BlockStep> StepsOf(Steps which, Values& values) {
  auto norm = [&](const std::string& name) {
    return Norm(NormKind::kRms, 1e-5f, values.Make(name + ".w", {kWidth}, 1),
                {});
  };
  std::vector<BlockStep> steps = {
      AttentionStep(
          NormPlace::kPre, norm("n1"),
          MakeAttention(values, "self", false, AttentionMask::Causal())),
      MlpStep(NormPlace::kPre, which == Steps::kShared ? Norm() : norm("n2"),
              MakeMlp(values, true, kWidth))};
  if (which == Steps::kSandwich) {
    steps[0].after = norm("n3");
    steps[1].after = norm("n4");
    steps[0].scale = 0.5f;
    steps[1].scale = 1.5f;
    return steps;
  }
  steps[1].input =
      which == Steps::kShared ? StepInput::kShared : StepInput::kBeside;
  steps[1].scale = 0.7f;
  if (which == Steps::kThree) {
    steps.push_back(AttentionStep(
        NormPlace::kPost, norm("n5"),
        MakeAttention(values, "third", false, AttentionMask::Causal())));
  }
  return steps;
}

TEST_F(Backward, BlocksOfStepsBesideEachOther) {
  for (const Steps which :
       {Steps::kBeside, Steps::kShared, Steps::kSandwich, Steps::kThree}) {
    SCOPED_TRACE(static_cast<int>(which));
    Values values;
    const Block block("layer.0", StepsOf(which, values));
    const int64_t lengths[] = {4};
    const SequenceBatch batch = MakeBatch(lengths);
    values.Make("x", {4, kWidth});
    const Tensor r = RandomTensor({4, kWidth}, 9);
    BlockSaved saved;
    BlockInput input;
    input.batch = &batch;
    input.dropout = {0.2f, 5, 8};
    input.saved = &saved;
    Tensor x(DType::kF32, {4, kWidth});
    auto loss = [&] {
      std::copy_n(values.value("x").As<float>(), x.size(), x.As<float>());
      block.Forward(context_, input, x.view());
      return Dot(x, r);
    };
    loss();
    std::copy_n(r.As<float>(), r.size(), values.gradient("x").As<float>());
    block.Backward(context_, input, values.gradient("x").view(), {});
    values.Check(loss);
  }
}

// x + attention(n1(x)) + mlp(n2(x)), by the parts.
TEST_F(Backward, StepsBesideEachOtherReadOneStream) {
  Values values;
  const Block both("layer.0", StepsOf(Steps::kBeside, values));
  const Block first("layer.0", {both.steps()[0]});
  BlockStep alone = both.steps()[1];
  alone.input = StepInput::kStream;
  const Block second("layer.0", {alone});
  const int64_t lengths[] = {4};
  const SequenceBatch batch = MakeBatch(lengths);
  BlockInput input;
  input.batch = &batch;
  const Tensor start = RandomTensor({4, kWidth}, 9);
  const auto run = [&](const Block& block) {
    Tensor x(DType::kF32, {4, kWidth});
    std::copy_n(start.As<float>(), start.size(), x.As<float>());
    block.Forward(context_, input, x.view());
    return x;
  };
  const Tensor sum = run(both), a = run(first), b = run(second);
  for (int64_t i = 0; i < sum.size(); ++i) {
    EXPECT_NEAR(sum.As<float>()[i],
                a.As<float>()[i] + b.As<float>()[i] - start.As<float>()[i],
                1e-5f);
  }
}

TEST_F(Backward, StepsThatDoNotGoTogetherAreRefused) {
  Values values;
  std::vector<BlockStep> steps = StepsOf(Steps::kBeside, values);
  EXPECT_THROW(Block("layer.0", {steps[1]}), Error);
  std::swap(steps[1].before, steps[1].joined);
  EXPECT_THROW(Block("layer.0", steps), Error);
}

}  // namespace
}  // namespace headwise::backward_test
