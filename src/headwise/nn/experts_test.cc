// A mixture of experts against all of its experts computed in double, and its
// gradients against differences of that.
#include "headwise/nn/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <string>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/nn/hooks.h"
#include "headwise/ops/copy/copy.h"

namespace headwise::experts_test {
namespace {

using Numbers = std::vector<double>;

struct Value {
  Tensor value, gradient;
};

// The f64 side reads the same numbers as the layer: an affine map.
struct Affine {
  const Value* weight = nullptr;
  const Value* bias = nullptr;  // may be absent
  WeightLayout layout = WeightLayout::kOutIn;

  int64_t out() const { return weight->value.view().shape[Out()]; }
  int Out() const { return layout == WeightLayout::kOutIn ? 0 : 1; }
  Numbers operator()(const Numbers& x) const {
    const float* w = weight->value.As<float>();
    const int64_t in = std::ssize(x), outs = out();
    Numbers y(outs);
    for (int64_t o = 0; o < outs; ++o) {
      if (bias != nullptr) y[o] = bias->value.As<float>()[o];
      for (int64_t i = 0; i < in; ++i) {
        y[o] += x[i] * w[Out() == 0 ? o * in + i : i * outs + o];
      }
    }
    return y;
  }
};

double ActivationOf(Activation kind, double x) {
  switch (kind) {
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kGelu:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return x / 2 *
             (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) *
                            (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kClampedSilu:
      break;  // of no dense layer here
  }
  return 0;
}

struct DenseMlp {
  Activation activation = Activation::kSilu;
  Affine gate, up, down;

  Numbers operator()(const Numbers& x) const {
    Numbers hidden = up(x);
    const Numbers gates = gate.weight != nullptr ? gate(x) : hidden;
    for (size_t i = 0; i < hidden.size(); ++i) {
      const double open = ActivationOf(activation, gates[i]);
      hidden[i] = gate.weight != nullptr ? open * hidden[i] : open;
    }
    return down(hidden);
  }
};

struct Options {
  int64_t width = 6, hidden = 5, experts = 4, tokens = 9;
  int64_t shared_hidden = 0;
  bool shared_gate = false, gated = true, biased = false;
  bool correction = false, trainable = true;
  WeightLayout layout = WeightLayout::kOutIn;
  Activation activation = Activation::kSilu;
  ExpertRouterConfig config;
  float balance = 0;
};

Options RandomOptions(uint64_t seed) {
  Rng rng(seed, 1);
  Options options;
  options.width = rng.Between(3, 9);
  options.hidden = rng.Between(2, 7);
  options.tokens = rng.Between(1, 20);
  options.config.groups = rng.Between(1, 3);
  const int64_t each = rng.Between(2, 3);
  options.experts = options.config.groups * each;
  options.config.active_groups = rng.Between(1, options.config.groups);
  options.config.active = rng.Between(1, options.config.active_groups * each);
  options.config.normalized = rng.Below(2) == 0;
  options.config.scale = rng.Below(2) == 0 ? 1.0f : 2.5f;
  options.config.score =
      rng.Below(2) == 0 ? RouterScore::kSoftmax : RouterScore::kSigmoid;
  options.config.group_score =
      rng.Below(2) == 0 ? GroupScore::kBest : GroupScore::kBestTwo;
  options.shared_hidden = rng.Below(2) == 0 ? rng.Between(2, 6) : 0;
  options.shared_gate = options.shared_hidden > 0 && rng.Below(2) == 0;
  options.gated = rng.Below(3) > 0;
  options.biased = rng.Below(2) == 0;
  options.correction = rng.Below(2) == 0;
  options.layout =
      rng.Below(2) == 0 ? WeightLayout::kOutIn : WeightLayout::kInOut;
  const Activation kinds[] = {Activation::kSilu, Activation::kGelu,
                              Activation::kGeluTanh, Activation::kTanh};
  options.activation = kinds[rng.Below(4)];
  options.balance = rng.Below(2) == 0 ? 0.3f : 0.0f;
  return options;
}

// A layer of random weights, and the same in double.
class Problem {
 public:
  Problem(const Options& options, uint64_t seed)
      : options_(options), rng_(seed, 2) {
    const int64_t width = options.width;
    ExpertsParts parts;
    parts.name = "layer.0.mlp";
    parts.config = options.config;
    parts.router = Make(width, options.experts, &router_);
    if (options.correction) {
      correction_ = &Random({options.experts}, 0.2f);
      parts.correction = {"c", std::as_const(correction_->value).view()};
    }
    experts_.resize(options.experts);
    for (DenseMlp& expert : experts_) {
      parts.experts.push_back(MakeMlp(options.hidden, expert));
    }
    if (options.shared_hidden > 0) {
      parts.shared = MakeMlp(options.shared_hidden, shared_);
    }
    if (options.shared_gate) {
      parts.shared_gate = Make(width, 1, &shared_gate_);
    }
    layer_ = Experts(std::move(parts));
    x_ = &Random({options.tokens, width}, 1);
    r_ = std::move(Random({options.tokens, width}, 1).value);
    values_.pop_back();
  }

  const Experts& layer() const { return layer_; }
  ConstTensorView x() const { return std::as_const(x_->value).view(); }
  ConstTensorView r() const { return std::as_const(r_).view(); }
  Value& input() { return *x_; }
  std::list<Value>& values() { return values_; }
  const Value* correction() const { return correction_; }
  const std::vector<int32_t>& chosen() const { return chosen_; }

  // y [T, d] of all experts, those that are not chosen with a weight of 0.
  Numbers Dense();
  // ⟨Dense, r⟩ and the balance.
  double Loss() {
    const Numbers y = Dense();
    double sum = options_.balance * balance_;
    for (size_t i = 0; i < y.size(); ++i) {
      sum += y[i] * r_.As<float>()[static_cast<int64_t>(i)];
    }
    return sum;
  }
  double balance() const { return balance_; }

 private:
  Value& Random(const Shape& shape, float scale) {
    Value& made = values_.emplace_back();
    made.value = Tensor(DType::kF32, shape);
    made.gradient = Tensor(DType::kF32, shape);
    for (int64_t i = 0; i < made.value.size(); ++i) {
      made.value.As<float>()[i] = scale * static_cast<float>(rng_.Normal());
    }
    return made;
  }
  Parameter ParameterOf(Value& value) const {
    Parameter made = {"w", std::as_const(value.value).view()};
    if (options_.trainable) made.gradient = value.gradient.view();
    return made;
  }
  Linear Make(int64_t in, int64_t out, Affine* dense) {
    const bool out_in = options_.layout == WeightLayout::kOutIn;
    Value& weight = Random(out_in ? Shape{out, in} : Shape{in, out}, 0.6f);
    Parameter bias;
    dense->weight = &weight;
    dense->layout = options_.layout;
    if (options_.biased) {
      Value& value = Random({out}, 0.5f);
      dense->bias = &value;
      bias = ParameterOf(value);
    }
    return Linear({{ParameterOf(weight), bias}}, options_.layout);
  }
  Mlp MakeMlp(int64_t hidden, DenseMlp& dense) {
    dense.activation = options_.activation;
    Linear gate;
    if (options_.gated) gate = Make(options_.width, hidden, &dense.gate);
    Linear up = Make(options_.width, hidden, &dense.up);
    return {options_.activation, std::move(gate), std::move(up),
            Make(hidden, options_.width, &dense.down)};
  }
  // Weights [E] of a token, 0 where it does not choose an expert, and its part
  // of the balance.
  Numbers Weights(const Numbers& x, Numbers& share);

  Options options_;
  Rng rng_;
  std::list<Value> values_;
  Affine router_, shared_gate_;
  std::vector<DenseMlp> experts_;
  DenseMlp shared_;
  Value* correction_ = nullptr;
  Experts layer_;
  Value* x_ = nullptr;
  Tensor r_;
  std::vector<int32_t> chosen_;
  double balance_ = 0;
};

Numbers Problem::Weights(const Numbers& x, Numbers& share) {
  const ExpertRouterConfig& config = options_.config;
  Numbers scores = router_(x);
  double sum = 0;
  for (double& one : scores) {
    one = config.score == RouterScore::kSoftmax ? std::exp(one)
                                                : 1 / (1 + std::exp(-one));
    sum += one;
  }
  share = scores;
  for (double& one : share) one /= sum;
  if (config.score == RouterScore::kSoftmax) scores = share;
  // The choice is expert_router_test's.
  std::vector<float> logits, correction;
  for (const double one : router_(x)) {
    logits.push_back(static_cast<float>(one));
  }
  if (correction_ != nullptr) {
    const float* at = correction_->value.As<float>();
    correction.assign(at, at + options_.experts);
  }
  const std::vector<int32_t> chosen =
      ChooseExperts(config, options_.experts, logits, correction).chosen;
  chosen_.insert(chosen_.end(), chosen.begin(), chosen.end());
  double divisor = config.normalized ? 0 : 1;
  for (const int32_t e : chosen) {
    if (config.normalized) divisor += scores[e];
  }
  Numbers weights(options_.experts);
  for (const int32_t e : chosen) {
    weights[e] = config.scale * scores[e] / divisor;
  }
  return weights;
}

Numbers Problem::Dense() {
  const int64_t width = options_.width, tokens = options_.tokens;
  Numbers y(tokens * width), mean(options_.experts), used(options_.experts);
  chosen_.clear();
  for (int64_t t = 0; t < tokens; ++t) {
    const float* at = x_->value.As<float>() + t * width;
    const Numbers x(at, at + width);
    Numbers share;
    const Numbers weights = Weights(x, share);
    const auto add = [&](double weight, const Numbers& out) {
      for (int64_t i = 0; i < width; ++i) y[t * width + i] += weight * out[i];
    };
    for (int64_t e = 0; e < options_.experts; ++e) {
      add(weights[e], experts_[e](x));
      mean[e] += share[e] / static_cast<double>(tokens);
      used[e] += weights[e] > 0 ? 1 / static_cast<double>(tokens) : 0;
    }
    if (options_.shared_hidden > 0) {
      add(options_.shared_gate ? 1 / (1 + std::exp(-shared_gate_(x)[0])) : 1,
          shared_(x));
    }
  }
  balance_ = 0;
  for (int64_t e = 0; e < options_.experts; ++e) {
    balance_ += static_cast<double>(options_.experts) * used[e] * mean[e];
  }
  return y;
}

float LargestOf(const Numbers& values) {
  double largest = 0;
  for (const double value : values) {
    largest = std::max(largest, std::abs(value));
  }
  return static_cast<float>(largest);
}

// y of a layer, which begins as 1.
std::vector<float> OutputsOf(Context& context, const Experts& layer,
                             const ConstTensorView& x, Store store,
                             ExpertsSaved* saved = nullptr,
                             const ExpertsInput& input = {}) {
  Tensor y(DType::kF32, {x.shape[0], x.shape[1]});
  Fill(context, 1, y.view());
  saved != nullptr
      ? layer.ForwardSaving(context, x, y.view(), store, *saved, input)
      : layer.Forward(context, x, y.view(), store, input);
  return ToVector<float>(context, y.view());
}

void ExpectNear(const std::vector<float>& found, const Numbers& expected,
                double offset = 0) {
  ASSERT_EQ(found.size(), expected.size());
  const double scale = std::max(1.0f, LargestOf(expected));
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i] - offset, expected[i], 1e-5 * scale) << i;
  }
}

TEST(ExpertsTest, ForwardIsThatOfAllExpertsInDouble) {
  Context context({2, ""});
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Options options = RandomOptions(seed);
    options.trainable = seed % 2 == 0;
    Problem problem(options, seed);
    const Numbers expected = problem.Dense();
    const Experts& layer = problem.layer();
    ExpectNear(OutputsOf(context, layer, problem.x(), Store::kOverwrite),
               expected);
    ExpectNear(OutputsOf(context, layer, problem.x(), Store::kAccumulate),
               expected, 1);
    ExpertsSaved saved;
    double loss = 0;
    ExpectNear(OutputsOf(context, layer, problem.x(), Store::kOverwrite, &saved,
                         {.balance = 2, .loss = &loss}),
               expected);
    EXPECT_NEAR(loss, 2 * problem.balance(), 1e-5);
    EXPECT_EQ(saved.route.choice.chosen, problem.chosen());
  }
}

// Gradients into `problem`, dx among them.
void RunBackward(Context& context, Problem& problem, float balance) {
  for (Value& one : problem.values()) Fill(context, 0, one.gradient.view());
  ExpertsSaved saved;
  double loss = 0;
  OutputsOf(context, problem.layer(), problem.x(), Store::kAccumulate, &saved,
            {.balance = balance, .loss = &loss});
  const TensorView dx = problem.input().gradient.view();
  Fill(context, 7, dx);  // is overwritten
  problem.layer().Backward(context, problem.x(), saved, problem.r(), dx);
}

TEST(ExpertsTest, GradientsAreDifferencesOfTheDenseLoss) {
  Context context({2, ""});
  int64_t checked = 0, jumps = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Options options = RandomOptions(seed);
    Problem problem(options, seed);
    RunBackward(context, problem, options.balance);
    problem.Loss();
    const std::vector<int32_t> chosen = problem.chosen();
    Rng rng(seed, 3);
    for (Value& one : problem.values()) {
      const int64_t i = rng.Between(0, one.value.size() - 1);
      float& w = one.value.As<float>()[i];
      const float kept = w;
      const auto at = [&](float step, double& moved) {
        w = kept + step;
        moved = static_cast<double>(w) - kept;
        const double loss = problem.Loss();
        return problem.chosen() == chosen ? loss : std::nan("");
      };
      double right = 0, left = 0;
      const double above = at(1e-3f, right), below = at(-1e-3f, left);
      w = kept;
      const double slope = (above - below) / (right - left);
      if (&one == problem.correction()) {
        EXPECT_EQ(one.gradient.As<float>()[i], 0);
        continue;
      }
      ++(std::isnan(slope) ? jumps : checked);  // at a choice the loss jumps
      if (std::isnan(slope)) continue;
      EXPECT_NEAR(one.gradient.As<float>()[i], slope,
                  2e-4 * std::max(1.0, std::abs(slope)))
          << "[" << i << "] of " << ToString(one.value.view());
    }
  }
  EXPECT_GT(checked, 600);
  EXPECT_LT(jumps, checked / 20);
}

TEST(ExpertsTest, FrozenWeightsAreSkippedAndDxStays) {
  Context context({2, ""});
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Options options = RandomOptions(seed);
    Problem learning(options, seed);
    options.trainable = false;
    Problem frozen(options, seed);
    RunBackward(context, learning, options.balance);
    RunBackward(context, frozen, options.balance);
    const auto dx = [&](Problem& problem) {
      Numbers all;
      for (const float one :
           ToVector<float>(context, problem.input().gradient.view())) {
        all.push_back(one);
      }
      return all;
    };
    const Numbers found = dx(frozen);
    ExpectNear({found.begin(), found.end()}, dx(learning));
    for (Value& one : frozen.values()) {
      if (&one == &frozen.input()) continue;
      for (const float g : ToVector<float>(context, one.gradient.view())) {
        ASSERT_EQ(g, 0);
      }
    }
  }
}

// Many tokens: an expert's rows pass in several blocks.
TEST(ExpertsTest, ThreadsChangeNoBitOfALongText) {
  Options options = RandomOptions(5);
  options.width = 8;
  options.hidden = 6;
  options.tokens = 1500;  // in three blocks
  options.experts = 4;
  options.config = {.active = 2, .normalized = true};
  options.shared_hidden = 5;
  options.shared_gate = true;
  Problem problem(options, 5);
  std::vector<std::vector<float>> runs;
  for (const int threads : {1, 3}) {
    Context context({threads, ""});
    runs.push_back(
        OutputsOf(context, problem.layer(), problem.x(), Store::kOverwrite));
    RunBackward(context, problem, 0.1f);
    for (Value& one : problem.values()) {
      runs.push_back(ToVector<float>(context, one.gradient.view()));
    }
  }
  const size_t half = runs.size() / 2;
  ExpectNear(runs[0], problem.Dense());
  for (size_t i = 0; i < half; ++i) EXPECT_EQ(runs[i], runs[half + i]) << i;
}

TEST(ExpertsTest, ALongTextIsNeverGatheredWhole) {
  Options options;
  options.width = 64;
  options.hidden = 16;
  options.tokens = 4096;
  options.trainable = false;
  options.config = {.active = 2};
  Problem problem(options, 1);
  Context context({1, ""});
  OutputsOf(context, problem.layer(), problem.x(), Store::kOverwrite);
  context.ResetPeakScratch();
  OutputsOf(context, problem.layer(), problem.x(), Store::kOverwrite);
  // Half of the rows that all experts read and write.
  EXPECT_LT(context.PeakScratchBytes(), 2 * 4096 * 2 * 64 * 4 / 2);
}

TEST(ExpertsTest, ExpertsThatNobodyChoseAreNotTouched) {
  Options options;
  options.experts = 3;
  options.biased = true;
  options.config = {.active = 1};
  Problem problem(options, 2);
  // The router's bias sends all to expert 1.
  Value& bias = *std::next(problem.values().begin());
  for (int e = 0; e < 3; ++e) bias.value.As<float>()[e] = e == 1 ? 50 : 0;
  Context context({1, ""});
  ExpertsSaved saved;
  OutputsOf(context, problem.layer(), problem.x(), Store::kOverwrite, &saved);
  EXPECT_FALSE(saved.experts[0].in);
  EXPECT_TRUE(saved.experts[1].in);
  EXPECT_FALSE(saved.experts[2].in);
  EXPECT_EQ(saved.rows.count(), options.tokens);
}

TEST(ExpertsTest, HooksSeeTheChoice) {
  Options options;
  options.shared_hidden = 3;
  options.shared_gate = true;
  options.config = {.active = 2, .normalized = true};
  Problem problem(options, 3);
  Context context({1, ""});
  const std::string router = "layer.0.mlp.router.";
  std::map<std::string, Numbers> taken;
  ActivationTaker taker(
      [&](std::string_view name) { return name.starts_with(router); },
      [&](std::string_view name, ConstTensorView value) {
        taken[std::string(name)] = ToVector<double>(context, value);
      });
  ExpertsSaved saved;
  OutputsOf(context, problem.layer(), problem.x(), Store::kOverwrite, &saved,
            {.hooks = &taker});
  const ExpertChoice& choice = saved.route.choice;
  const Numbers& weights = taken.at(router + "weights");
  const Numbers& use = taken.at(router + "use");
  EXPECT_THAT(taken.at(router + "logits"),
              testing::ElementsAreArray(choice.logits));
  Numbers tokens(4), sums(4);
  for (size_t i = 0; i < weights.size(); ++i) {
    tokens[i % 4] += weights[i] != 0 ? 1 : 0;
    sums[i % 4] += weights[i];
  }
  for (int e = 0; e < 4; ++e) {
    EXPECT_EQ(use[e], tokens[e]);
    EXPECT_NEAR(use[4 + e] * tokens[e], sums[e], 1e-6);
  }
  EXPECT_NEAR(sums[0] + sums[1] + sums[2] + sums[3], 9, 1e-5);
}

TEST(ExpertsTest, CountsParameters) {
  Options options;  // width 6, hidden 5, 4 experts of 3 · 30
  options.config.active = 2;
  options.shared_hidden = 3;
  options.shared_gate = true;
  options.correction = true;
  const Problem problem(options, 1);
  const int64_t beside = 4 * 6 + 4 + 3 * 3 * 6 + 6;
  EXPECT_EQ(problem.layer().parameters(), beside + 4 * 90);
  EXPECT_EQ(problem.layer().active_parameters(), beside + 2 * 90);
  EXPECT_EQ(problem.layer().linears().size(), 1u + 2u + 8u);
}

// Halves: what is summed is f32, products round their operands.
TEST(ExpertsTest, HalvesStayCloseToDouble) {
  Context context({2, ""});
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Options options = RandomOptions(seed);
    options.activation = Activation::kSilu;
    Problem problem(options, seed);
    const Shape shape = {options.tokens, options.width};
    Tensor x(DType::kBF16, shape), y(DType::kBF16, shape);
    Tensor r(DType::kBF16, shape), dx(DType::kBF16, shape);
    Copy(context, problem.x(), x.view());
    Copy(context, x.view(), problem.input().value.view());
    Copy(context, problem.r(), r.view());
    ExpertsSaved saved;
    problem.layer().ForwardSaving(context, x.view(), y.view(),
                                  Store::kOverwrite, saved);
    problem.layer().Backward(context, x.view(), saved, r.view(), dx.view());
    const Numbers expected = problem.Dense();
    if (saved.route.choice.chosen != problem.chosen()) continue;
    const std::vector<float> found = ToVector<float>(context, y.view());
    const double scale = std::max(1.0f, LargestOf(expected));
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 0.03 * scale) << i;
    }
    const std::vector<float> half = ToVector<float>(context, dx.view());
    RunBackward(context, problem, 0);
    const std::vector<float> whole =
        ToVector<float>(context, problem.input().gradient.view());
    const double most =
        std::max(1.0f, LargestOf(Numbers(whole.begin(), whole.end())));
    for (size_t i = 0; i < half.size(); ++i) {
      ASSERT_NEAR(half[i], whole[i], 0.05 * most) << i;
    }
  }
}

}  // namespace
}  // namespace headwise::experts_test
