// Gates of heads against their definitions and against finite differences.
#include "headwise/nn/head_gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "headwise/base/rng.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/ops/copy/copy.h"

namespace headwise::head_gates_test {
namespace {

constexpr int64_t kWidth = 6, kHeads = 4, kDim = 3;

// A tensor with room for its gradient.
struct Value {
  explicit Value(std::initializer_list<int64_t> shape, uint64_t seed,
                 float scale = 0.5f)
      : value(DType::kF32, shape), gradient(DType::kF32, shape) {
    Rng rng(seed);
    for (int64_t i = 0; i < value.size(); ++i) {
      value.As<float>()[i] = scale * static_cast<float>(rng.Normal());
    }
  }
  Parameter parameter(const std::string& name) {
    return {name, std::as_const(value).view(), gradient.view()};
  }
  Tensor value, gradient;
};

// A small attention layer with gates, two sequences, and the loss ⟨y, r⟩ +
// penalties.
class HeadGatesTest : public testing::Test {
 protected:
  void Make(GateConfig config, SpanConfig spans = {}) {
    GateWeights gates;
    if (config.kind == GateKind::kHardConcrete) {
      gates.log_alpha = log_alpha_.parameter("log_alpha");
    } else if (config.kind == GateKind::kMixture) {
      const int64_t others = kHeads - config.shared;
      // Weights with which no token's choice is so close that a small
      // difference turns it.
      parts_.emplace_back(std::initializer_list<int64_t>{others, kWidth},
                          11 + 10 * config.shared);
      if (config.shared > 0) {
        parts_.emplace_back(
            std::initializer_list<int64_t>{config.shared, kWidth}, 12);
        parts_.emplace_back(std::initializer_list<int64_t>{2, kWidth}, 13);
      }
      std::vector<Linear::Part> linear;
      for (Value& part : parts_) linear.push_back({part.parameter("r"), {}});
      gates.router = Linear(std::move(linear), WeightLayout::kOutIn);
    }
    AttentionWeights weights;
    weights.of_x = Linear({{qkv_.parameter("qkv"), {}}}, WeightLayout::kOutIn);
    weights.output = Linear({{out_.parameter("o"), {}}}, WeightLayout::kOutIn);
    weights.gates = HeadGates(config, std::move(gates), kHeads);
    if (spans.ramp > 0) {
      weights.spans = HeadSpans(spans, spans_.parameter("span"));
    }
    AttentionLayerConfig layer;
    layer.heads = layer.kv_heads = kHeads;
    layer.head_dim = kDim;
    layer.mask = AttentionMask::Causal();
    layer_ = AttentionLayer(layer, std::move(weights),
                            {AttentionKind::kSelf, 0, "layer.0.attention"});
    training_.seed = 5;
    training_.loss = &penalty_;
    input_.x = std::as_const(x_.value).view();
    input_.batch = &batch_;
    input_.gate_draw = {&training_, 8};
    input_.saved = &saved_;
  }

  double Loss() {
    penalty_ = 0;
    saved_ = {};
    layer_.Forward(context_, input_, y_.view(), Store::kOverwrite);
    double sum = penalty_;
    for (int64_t i = 0; i < y_.size(); ++i) {
      sum += static_cast<double>(y_.As<float>()[i]) * r_.value.As<float>()[i];
    }
    return sum;
  }

  std::vector<float> Floats(const Temp& values) {
    return ToVector<float>(context_, values.view());
  }

  // Gradients of every value against differences of the loss.
  void CheckGradients() {
    Loss();
    layer_.Backward(context_, input_, saved_, std::as_const(r_.value).view(),
                    x_.gradient.view(), {});
    std::vector<Value*> all = {&x_, &qkv_, &out_};
    if (layer_.weights().gates.weights().log_alpha) all.push_back(&log_alpha_);
    for (Value& part : parts_) all.push_back(&part);
    if (layer_.weights().spans.trainable()) all.push_back(&spans_);
    for (Value* one : all) {
      for (int64_t i = 0; i < one->value.size(); ++i) {
        float& w = one->value.As<float>()[i];
        const float kept = w;
        auto at = [&](double step) {
          w = kept + static_cast<float>(step);
          return Loss();
        };
        const double h = 0.004;
        const double slope =
            (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
        w = kept;
        EXPECT_NEAR(one->gradient.As<float>()[i], slope,
                    2e-3 * std::max(1.0, std::abs(slope)))
            << i << " of " << one->value.size();
      }
    }
    Loss();
  }

  Context context_{{1, ""}};
  Value x_{{7, kWidth}, 1}, qkv_{{3 * kHeads * kDim, kWidth}, 2},
      out_{{kWidth, kHeads*kDim}, 3}, log_alpha_{{kHeads}, 4},
      spans_{{kHeads}, 5}, r_{{7, kWidth}, 6, 1};
  std::vector<Value> parts_;
  Tensor y_{DType::kF32, {7, kWidth}};
  SequenceBatch batch_ = MakeBatch(std::vector<int64_t>{4, 3});
  AttentionLayer layer_;
  AttentionInput input_;
  AttentionSaved saved_;
  GateTraining training_;
  double penalty_ = 0;
};

TEST_F(HeadGatesTest, HardConcreteGatesPassOnTheirGradient) {
  training_.gate_penalty = 0.3f;
  Make({GateKind::kHardConcrete});
  CheckGradients();
  // Some draw lies inside (0, 1), or nothing was tested.
  EXPECT_THAT(Floats(saved_.gates.slopes),
              testing::Contains(testing::Gt(0.1f)));
}

TEST_F(HeadGatesTest, HardConcreteGatesWithoutADrawPassItOnToo) {
  Make({GateKind::kHardConcrete});
  input_.gate_draw = {};
  CheckGradients();
  for (int64_t h = 0; h < kHeads; ++h) {
    EXPECT_FLOAT_EQ(
        Floats(saved_.gates.gates)[h],
        static_cast<float>(ConcreteGate(log_alpha_.value.As<float>()[h])));
  }
}

TEST_F(HeadGatesTest, MixturesPassOnTheirGradientWithBalance) {
  training_.balance = 0.7f;
  training_.head_dropout = 0.3f;
  Make({GateKind::kMixture, 1, 3});
  CheckGradients();
}

TEST_F(HeadGatesTest, MixturesWithoutSharedHeadsDoToo) {
  training_.balance = 0.7f;
  Make({GateKind::kMixture, 0, 2});
  CheckGradients();
}

TEST_F(HeadGatesTest, ARouterOfZerosOpensTheChosenHeadsFully) {
  Make({GateKind::kMixture, 1, 3});
  for (Value& part : parts_) {
    std::fill_n(part.value.As<float>(), part.value.size(), 0.0f);
  }
  Loss();
  std::vector<float> gates = Floats(saved_.gates.gates);
  gates.resize(kHeads);
  EXPECT_THAT(gates, testing::Pointwise(testing::FloatEq(),
                                        std::vector<float>{1, 1, 1, 0}));
  // No token chose the last head: no work is done for it.
  EXPECT_THAT(saved_.gates.active, testing::ElementsAre(0, 1, 2));
}

TEST_F(HeadGatesTest, HeadDropoutIsOneOnAverageAndKeepsAHead) {
  Make({});
  training_.head_dropout = 0.8f;
  std::vector<double> mean(kHeads, 0);
  std::set<int> counts;
  const int draws = 4000;
  for (int i = 0; i < draws; ++i) {
    GateSaved saved;
    layer_.weights().gates.Forward(context_, input_.x, batch_,
                                   {&training_, static_cast<uint64_t>(i)},
                                   saved);
    const std::vector<float> gates = Floats(saved.gates);
    double sum = 0;
    int kept = 0;
    for (int64_t h = 0; h < kHeads; ++h) {
      const float gate = gates[h];
      mean[h] += gate / draws;
      sum += gate;
      kept += gate > 0 ? 1 : 0;
    }
    EXPECT_NEAR(sum, kHeads, 1e-5);
    counts.insert(kept);
  }
  EXPECT_EQ(*counts.begin(), 1);
  // Gates have a deviation of at most √3: ±0.1 is more than three of the mean.
  EXPECT_THAT(mean, testing::Each(testing::DoubleNear(1, 0.1)));
}

TEST_F(HeadGatesTest, HeadDropoutPassesOnItsGradient) {
  training_.head_dropout = 0.5f;
  Make({});
  CheckGradients();
  EXPECT_THAT(Floats(saved_.gates.dropout), testing::Contains(0.0f));
}

TEST_F(HeadGatesTest, DrawsDependOnSeedAndStreamAlone) {
  Make({GateKind::kHardConcrete});
  auto gates = [&] {
    Loss();
    return Floats(saved_.gates.gates);
  };
  const std::vector<float> before = gates();
  EXPECT_EQ(gates(), before);
  input_.gate_draw.stream = 9;
  EXPECT_NE(gates(), before);
}

TEST_F(HeadGatesTest, ThePenaltyIsTheShareOfDrawsThatAreNotZero) {
  for (const double a : {-2.0, 0.0, 1.5}) {
    std::fill_n(log_alpha_.value.As<float>(), kHeads, static_cast<float>(a));
    Make({GateKind::kHardConcrete});
    int open = 0;
    const int draws = 2000;
    for (int i = 0; i < draws; ++i) {
      GateSaved saved;
      layer_.weights().gates.Forward(context_, input_.x, batch_,
                                     {&training_, static_cast<uint64_t>(i)},
                                     saved);
      const std::vector<float> gates = Floats(saved.gates);
      for (int64_t h = 0; h < kHeads; ++h) open += gates[h] > 0 ? 1 : 0;
    }
    EXPECT_NEAR(open / static_cast<double>(draws * kHeads), ConcreteOpen(a),
                0.02)
        << a;
  }
  EXPECT_EQ(ConcreteGate(kNewLogAlpha), 1);
}

// Spans, in units of a limit of 10 positions, that end inside a ramp.
constexpr float kSpans[] = {0.02f, 0.13f, 0.09f, 0.17f};

TEST_F(HeadGatesTest, SpansPassOnTheirGradient) {
  training_.span_penalty = 0.3f;
  std::copy_n(kSpans, kHeads, spans_.value.As<float>());
  Make({}, {2, 10});
  CheckGradients();
  // Heads beyond all of which no key lies: the call is a band.
  EXPECT_EQ(saved_.problem.mask.before, 3);
}

TEST_F(HeadGatesTest, ASpanMultipliesAttentionByItsMaskOfTheDistance) {
  std::copy_n(kSpans, kHeads, spans_.value.As<float>());
  Make({}, {2, 10});
  // Without queries every visible key has the same score.
  std::fill_n(qkv_.value.As<float>(), kHeads * kDim * kWidth, 0.0f);
  Loss();
  const AttentionArgs& args = saved_.args;
  const int64_t query = 3;  // the last of the first sequence
  for (int64_t h = 0; h < kHeads; ++h) {
    double sum = 0, value = 0;
    for (int64_t j = 0; j <= query; ++j) {
      const double m =
          std::clamp((2 + 10 * kSpans[h] - (query - j)) / 2.0, 0.0, 1.0);
      sum += m;
      value +=
          m * args.v.As<float>()[j * args.v.stride[1] + h * args.v.stride[2]];
    }
    EXPECT_NEAR(
        args.out
            .As<float>()[query * args.out.stride[1] + h * args.out.stride[2]],
        value / sum, 1e-5)
        << h;
  }
}

// Gates f of one head and what replaces it, as an ablation sets them.
class Ablation : public RunHooks {
 public:
  Ablation(std::vector<float> gates, std::vector<float> mean)
      : gates_(std::move(gates)), mean_(std::move(mean)) {}
  void BeforeAttention(const AttentionSite&, const AttentionProblem&,
                       AttentionArgs& args) override {
    args.gates = View(gates_.data(), {1, args.q.shape[1], kHeads});
    args.gates.stride = {0, 0, 1};
    if (mean_.empty()) return;
    args.replacement = View(mean_.data(), {1, args.q.shape[1], kHeads, kDim});
    args.replacement.stride = {0, 0, kDim, 1};
  }
  void AfterAttention(const AttentionSite&, const AttentionProblem&,
                      const AttentionArgs& args) override {
    out.assign(args.out.As<float>(), args.out.As<float>() + 7 * kHeads * kDim);
  }
  std::vector<float> out;

 private:
  std::vector<float> gates_, mean_;
};

TEST_F(HeadGatesTest, AHooksGatesActOnWhatTheLayersOwnLetThrough) {
  Make({GateKind::kHardConcrete});
  log_alpha_.value.As<float>()[1] = -9;  // closed
  input_.gate_draw = {};
  input_.saved = nullptr;
  auto run = [&](Ablation hooks) {
    input_.hooks = &hooks;
    Loss();
    return hooks.out;
  };
  const std::vector<float> own = run({{1, 1, 1, 1}, {}});
  std::vector<float> mean(kHeads * kDim);
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = 1 + 0.1f * i;
  const std::vector<float> f = {0.25f, 0, 1, 0.5f};
  const std::vector<float> out = run({f, mean});
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t h = i / kDim % kHeads;
    EXPECT_NEAR(out[i], f[h] * own[i] + (1 - f[h]) * mean[i % mean.size()],
                1e-5)
        << i;
  }
}

}  // namespace
}  // namespace headwise::head_gates_test
