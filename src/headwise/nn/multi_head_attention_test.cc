// The module against formulas written out in double, its backward against
// finite differences, and what bad input gets.
#include "headwise/multi_head_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/observation.h"

namespace headwise::multi_head_attention_test {
namespace {

using Config = MultiHeadAttentionConfig;

Tensor Random(std::initializer_list<int64_t> shape, uint64_t seed) {
  Tensor tensor(DType::kF32, shape);
  Rng rng(seed);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    tensor.As<float>()[i] = static_cast<float>(rng.Normal());
  }
  return tensor;
}

void Randomize(Tensor& tensor, uint64_t seed) {
  Rng rng(seed);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    tensor.As<float>()[i] = static_cast<float>(0.3 * rng.Normal());
  }
}

double MaxDifference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    worst = std::max(
        worst, std::abs(double{a.As<float>()[i]} - double{b.As<float>()[i]}));
  }
  return worst;
}

// x W for one row.
double Product(const Tensor& x, int64_t row, const Tensor& w, int64_t column,
               const Tensor& bias) {
  const int64_t width = w.shape(0);
  double sum =
      bias.size() > 0 && bias.rank() > 0 ? bias.As<float>()[column] : 0;
  for (int64_t i = 0; i < width; ++i) {
    sum += double{x.As<float>()[row * width + i]} *
           double{w.As<float>()[i * w.shape(1) + column]};
  }
  return sum;
}

// Σ_h A_h S W_V^h W_O^h + b_o, all in double, nothing shared with the module.
std::vector<double> SumForm(const MultiHeadAttention& module, const Tensor& x,
                            const Tensor& source, bool causal) {
  const Config& c = module.config();
  const MultiHeadAttentionParameters& p = module.parameters();
  const int64_t rows = x.shape(0) * x.shape(1), queries = x.shape(1);
  const int64_t keys = source.shape(1), dim = c.head_dim;
  std::vector<double> out(static_cast<size_t>(rows * c.d_model));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = row / queries * keys;
    const int64_t seen = causal ? row % queries + 1 : keys;
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t g = h * c.kv_heads / c.heads;
      std::vector<double> a(static_cast<size_t>(seen));
      double total = 0;
      for (int64_t j = 0; j < seen; ++j) {
        double z = 0;
        for (int64_t e = 0; e < dim; ++e) {
          z += Product(x, row, p.w_q, h * dim + e, p.b_q) *
               Product(source, first + j, p.w_k, g * dim + e, p.b_k);
        }
        total += a[j] = std::exp(z / std::sqrt(static_cast<double>(dim)));
      }
      for (int64_t j = 0; j < seen; ++j) {
        for (int64_t e = 0; e < dim; ++e) {
          const double v =
              Product(source, first + j, p.w_v, g * dim + e, p.b_v);
          for (int64_t o = 0; o < c.d_model; ++o) {
            out[row * c.d_model + o] +=
                a[j] / total * v *
                p.w_o.As<float>()[(h * dim + e) * c.d_model + o];
          }
        }
      }
    }
    for (int64_t o = 0; c.bias && o < c.d_model; ++o) {
      out[row * c.d_model + o] += p.b_o.As<float>()[o];
    }
  }
  return out;
}

MultiHeadAttention Module(const Config& config) {
  MultiHeadAttention module(config, 7);
  uint64_t seed = 100;
  for (Tensor* bias : {&module.parameters().b_q, &module.parameters().b_k,
                       &module.parameters().b_v, &module.parameters().b_o}) {
    if (bias->rank() > 0) Randomize(*bias, seed++);
  }
  return module;
}

class ShapesTest : public testing::TestWithParam<Config> {};

TEST_P(ShapesTest, ForwardIsTheSumOverHeads) {
  Context context({.threads = 1, .implementations = ""});
  const MultiHeadAttention module = Module(GetParam());
  const Tensor x = Random({2, 5, module.config().d_model}, 1);
  const bool cross = module.config().source_dim != module.config().d_model;
  const Tensor source = cross ? Random({2, 7, module.config().source_dim}, 2)
                              : Random({2, 5, module.config().source_dim}, 1);
  for (bool causal : {false, true}) {
    if (causal && cross) continue;
    MultiHeadAttentionInput input;
    input.x = x.view();
    if (cross) input.source = source.view();
    if (causal) input.mask = AttentionMask::Causal();
    const Tensor out = module.Forward(context, input);
    const std::vector<double> want = SumForm(module, x, source, causal);
    for (int64_t i = 0; i < out.size(); ++i) {
      if (module.config().rotary_base > 0) break;  // multi_head_decode_test.cc
      ASSERT_NEAR(out.As<float>()[i], want[i], 2e-5) << i;
    }

    Tensor sum(DType::kF32, {2, 5, module.config().d_model});
    for (int64_t h = 0; h < module.config().heads; ++h) {
      const Tensor part = module.Output(context, h, input);
      for (int64_t i = 0; i < sum.size(); ++i) {
        sum.As<float>()[i] += part.As<float>()[i];
      }
    }
    if (module.config().bias) {
      for (int64_t i = 0; i < sum.size(); ++i) {
        sum.As<float>()[i] +=
            module.parameters().b_o.As<float>()[i % module.config().d_model];
      }
    }
    EXPECT_LE(MaxDifference(out, sum), 1e-5);
  }
}

TEST_P(ShapesTest, BackwardMatchesFiniteDifferences) {
  Context context({.threads = 1, .implementations = ""});
  MultiHeadAttention module = Module(GetParam());
  const Config& c = module.config();
  Tensor x = Random({2, 3, c.d_model}, 1);
  const bool cross = c.source_dim != c.d_model;
  Tensor source = Random({2, 4, c.source_dim}, 2);
  Tensor gates = Random({2, 3, c.heads}, 3);
  const Tensor dout = Random({2, 3, module.output_dim()}, 4);
  MultiHeadAttentionInput input;
  input.x = x.view();
  input.gates = gates.view();
  if (cross) input.source = source.view();

  auto loss = [&] {
    const Tensor out = module.Forward(context, input);
    double sum = 0;
    for (int64_t i = 0; i < out.size(); ++i) {
      sum += double{out.As<float>()[i]} * double{dout.As<float>()[i]};
    }
    return sum;
  };
  MultiHeadAttentionActivations kept;
  Tensor out(DType::kF32, {2, 3, module.output_dim()});
  module.Forward(context, input, out.view(), &kept);
  MultiHeadAttentionParameters dp(c);
  Tensor dx = Random({2, 3, c.d_model}, 5);  // overwritten
  Tensor dsource = Random({2, 4, c.source_dim}, 6);
  Tensor dgates = Random({2, 3, c.heads}, 7);
  MultiHeadAttentionGradients gradients;
  gradients.parameters = &dp;
  gradients.dx = dx.view();
  gradients.dgates = dgates.view();
  if (cross) gradients.dsource = dsource.view();
  module.Backward(context, input, kept, dout.view(), gradients);

  auto check = [&](const char* name, Tensor& value, const Tensor& gradient) {
    constexpr float kStep = 1e-2f;
    for (int64_t i = 0; i < value.size(); ++i) {
      float& entry = value.As<float>()[i];
      const float saved = entry;
      entry = saved + kStep;
      const double up = loss();
      entry = saved - kStep;
      const double down = loss();
      entry = saved;
      const double want = (up - down) / (2 * kStep);
      ASSERT_NEAR(gradient.As<float>()[i], want,
                  5e-3 * std::max(1.0, std::abs(want)))
          << name << " " << i;
    }
  };
  check("x", x, dx);
  if (cross) check("source", source, dsource);
  check("gates", gates, dgates);
  std::vector<const Tensor*> grads;
  MultiHeadAttentionParameters::VisitFields(
      dp,
      [&](const char*, const Tensor& t, const char*) { grads.push_back(&t); });
  size_t next = 0;
  MultiHeadAttentionParameters::VisitFields(
      module.parameters(), [&](const char* name, Tensor& t, const char*) {
        const Tensor& gradient = *grads[next++];
        if (t.rank() > 0) check(name, t, gradient);
      });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ShapesTest,
    testing::Values(Config{.d_model = 8, .heads = 1},
                    Config{.d_model = 8, .heads = 4},
                    Config{.d_model = 8, .heads = 8, .bias = true},
                    Config{
                        .d_model = 6, .heads = 4, .head_dim = 3, .kv_heads = 2},
                    Config{.d_model = 8,
                           .heads = 2,
                           .kv_heads = 1,
                           .source_dim = 5,
                           .bias = true},
                    Config{.d_model = 8, .heads = 2, .rotary_base = 50}));

TEST(MultiHeadAttentionTest, ParameterGradientsAccumulate) {
  Context context({.threads = 1, .implementations = ""});
  const MultiHeadAttention module({.d_model = 4, .heads = 2}, 3);
  const Tensor x = Random({1, 3, 4}, 1), dout = Random({1, 3, 4}, 2);
  const MultiHeadAttentionInput input{.x = x.view()};
  MultiHeadAttentionActivations kept;
  Tensor out(DType::kF32, {1, 3, 4});
  module.Forward(context, input, out.view(), &kept);
  MultiHeadAttentionParameters once(module.config()), twice(module.config());
  module.Backward(context, input, kept, dout.view(), {.parameters = &once});
  for (int i = 0; i < 2; ++i) {
    module.Backward(context, input, kept, dout.view(), {.parameters = &twice});
  }
  for (int64_t i = 0; i < once.w_q.size(); ++i) {
    EXPECT_NEAR(twice.w_q.As<float>()[i], 2 * once.w_q.As<float>()[i], 1e-5);
  }
}

TEST(MultiHeadAttentionTest, WithoutOutputProjectionHeadsStandSideBySide) {
  Context context({.threads = 1, .implementations = ""});
  const MultiHeadAttention module(
      {.d_model = 6, .heads = 2, .head_dim = 5, .output_projection = false}, 3);
  EXPECT_EQ(module.output_dim(), 10);
  const Tensor x = Random({1, 4, 6}, 1);
  const MultiHeadAttentionInput input{.x = x.view()};
  const Tensor out = module.Forward(context, input);
  for (int64_t h = 0; h < 2; ++h) {
    const Tensor part = module.Output(context, h, input);
    for (int64_t m = 0; m < 4; ++m) {
      for (int64_t e = 0; e < 5; ++e) {
        EXPECT_NEAR(out.As<float>()[m * 10 + h * 5 + e],
                    part.As<float>()[m * 5 + e], 1e-6);
      }
    }
  }
}

TEST(MultiHeadAttentionTest, WeightsFollowTheMetric) {
  Context context({.threads = 1, .implementations = ""});
  const MultiHeadAttention module({.d_model = 6, .heads = 3}, 3);
  const Tensor x = Random({1, 4, 6}, 1);
  const Tensor metric = module.Metric(context, 2);
  const Tensor weights = module.Weights(
      context, 2, {.x = x.view(), .mask = AttentionMask::Causal()});
  for (int64_t i = 0; i < 4; ++i) {
    std::vector<double> z(4);
    double total = 0;
    for (int64_t j = 0; j <= i; ++j) {
      for (int64_t a = 0; a < 6; ++a) {
        for (int64_t b = 0; b < 6; ++b) {
          z[j] += double{x.As<float>()[i * 6 + a]} *
                  metric.As<float>()[a * 6 + b] * x.As<float>()[j * 6 + b];
        }
      }
      total += z[j] = std::exp(z[j] / std::sqrt(2.0));
    }
    for (int64_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(weights.As<float>()[i * 4 + j], z[j] / total, 1e-5);
    }
  }
}

TEST(MultiHeadAttentionTest, ContentIsValueTimesOutput) {
  Context context({.threads = 1, .implementations = ""});
  const MultiHeadAttention module({.d_model = 4, .heads = 2}, 3);
  const HeadContent content = module.Content(context, 1);
  const MultiHeadAttentionParameters& p = module.parameters();
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(content.value.As<float>()[i * 2], p.w_v.As<float>()[i * 4 + 2]);
    for (int64_t j = 0; j < 4; ++j) {
      double want = 0;
      for (int64_t e = 0; e < 2; ++e) {
        want += double{p.w_v.As<float>()[i * 4 + 2 + e]} *
                p.w_o.As<float>()[(2 + e) * 4 + j];
      }
      EXPECT_NEAR(content.output.As<float>()[i * 4 + j], want, 1e-6);
    }
  }
}

TEST(MultiHeadAttentionTest, ObservationAndActiveHeadsPassThrough) {
  Context context({.threads = 1, .implementations = ""});
  const MultiHeadAttention module({.d_model = 8, .heads = 2}, 3);
  const Tensor x = Random({1, 5, 8}, 1);
  Tensor entropy(DType::kF32, {1, 2, 5});
  Observation observation;
  observation.rows.entropy = entropy.view();
  const int32_t active[] = {1};
  MultiHeadAttentionInput input{.x = x.view()};
  input.active_heads = active;
  input.observation = &observation;
  const Tensor out = module.Forward(context, input);
  EXPECT_LE(MaxDifference(out, module.Output(context, 1, {.x = x.view()})),
            1e-6);
  const Tensor weights = module.Weights(context, 1, {.x = x.view()});
  for (int64_t i = 0; i < 5; ++i) {
    double want = 0;
    for (int64_t j = 0; j < 5; ++j) {
      const double p = weights.As<float>()[i * 5 + j];
      want -= p * std::log(p);
    }
    EXPECT_NEAR(entropy.As<float>()[5 + i], want, 1e-5);
  }
}

TEST(MultiHeadAttentionTest, AFilterThatLeavesNoHeadLeavesTheBias) {
  Context context({.threads = 1, .implementations = ""});
  MultiHeadAttention module({.d_model = 4, .heads = 2, .bias = true}, 3);
  for (int i = 0; i < 4; ++i) module.parameters().b_o.As<float>()[i] = 2;
  const Tensor x = Random({1, 3, 4}, 1);
  const Tensor out = module.Forward(
      context, {.x = x.view(), .active_heads = HeadFilter::None()});
  for (int i = 0; i < 12; ++i) EXPECT_EQ(out.As<float>()[i], 2);
}

TEST(MultiHeadAttentionTest, OneContextInTwoThreadsIsRightOrRefused) {
  Context context({.threads = 2, .implementations = ""});
  const MultiHeadAttention module({.d_model = 64, .heads = 4}, 3);
  const Tensor x = Random({1, 40, 64}, 1);
  const Tensor expected = module.Forward(context, {.x = x.view()});
  std::atomic<int> wrong = 0, done = 0;
  auto call = [&] {
    for (int i = 0; i < 200; ++i) {
      try {
        const Tensor out = module.Forward(context, {.x = x.view()});
        ++done;
        if (MaxDifference(out, expected) != 0) ++wrong;
      } catch (const Error& error) {
        if (error.parts().where != "context") ++wrong;
      }
    }
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(done, 0);
}

TEST(MultiHeadAttentionTest, OneModuleInTwoThreadsGivesTheSameBits) {
  const MultiHeadAttention module({.d_model = 64, .heads = 4, .bias = true}, 3);
  const Tensor x = Random({1, 20, 64}, 1);
  Context own({.threads = 1});
  const Tensor expected = module.Forward(own, {.x = x.view()});
  std::atomic<int> wrong = 0;
  auto call = [&] {
    Context context({.threads = 2});
    for (int i = 0; i < 20; ++i) {
      const Tensor out = module.Forward(context, {.x = x.view()});
      if (MaxDifference(out, expected) != 0) ++wrong;
    }
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST(MultiHeadAttentionTest, OneCacheInTwoThreadsGrowsOrRefuses) {
  const MultiHeadAttention module({.d_model = 16, .heads = 2}, 3);
  const Tensor x = Random({1, 1, 16}, 1);
  Context first({.threads = 1}), second({.threads = 1});
  MultiHeadAttentionCache cache(first, module.config(), 1, 400);
  std::atomic<int> wrong = 0, done = 0;
  auto call = [&](Context& context) {
    Tensor out(DType::kF32, {1, 1, 16});
    for (int i = 0; i < 200; ++i) {
      try {
        module.Forward(
            context,
            {.x = x.view(), .mask = AttentionMask::Causal(), .cache = &cache},
            out.view());
        ++done;
      } catch (const Error& error) {
        if (error.parts().where != "MultiHeadAttentionCache") ++wrong;
      }
    }
  };
  std::thread other([&] { call(second); });
  call(first);
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache.length(), done);
}

TEST(MultiHeadAttentionTest, ParametersThatWereReplacedAreTheOnesThatRun) {
  Context context({.threads = 1, .implementations = ""});
  MultiHeadAttention module({.d_model = 4, .heads = 2}, 3);
  MultiHeadAttention other({.d_model = 4, .heads = 2}, 4);
  const Tensor x = Random({1, 3, 4}, 1);
  const Tensor expected = other.Forward(context, {.x = x.view()});
  module.parameters() = std::move(other.parameters());
  EXPECT_EQ(MaxDifference(module.Forward(context, {.x = x.view()}), expected),
            0);
  MultiHeadAttention moved = std::move(module);
  EXPECT_EQ(MaxDifference(moved.Forward(context, {.x = x.view()}), expected),
            0);
}

TEST(MultiHeadAttentionTest, StridedInputEqualsDense) {
  Context context({.threads = 1, .implementations = ""});
  const MultiHeadAttention module({.d_model = 4, .heads = 2}, 3);
  const Tensor wide = Random({2, 6, 9}, 1);
  ConstTensorView view = wide.view();
  view.shape = {2, 3, 4};  // stride [54, 9, 1]: sequences do not abut
  Tensor dense(DType::kF32, {2, 3, 4});
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t m = 0; m < 3; ++m) {
      for (int64_t i = 0; i < 4; ++i) {
        dense.As<float>()[(b * 3 + m) * 4 + i] =
            wide.As<float>()[b * 54 + m * 9 + i];
      }
    }
  }
  EXPECT_LE(MaxDifference(module.Forward(context, {.x = view}),
                          module.Forward(context, {.x = dense.view()})),
            1e-6);
}

TEST(MultiHeadAttentionTest, SeedDecidesTheWeights) {
  const Config config{.d_model = 8, .heads = 2};
  const MultiHeadAttention a(config, 1), b(config, 1), c(config, 2);
  EXPECT_EQ(MaxDifference(a.parameters().w_q, b.parameters().w_q), 0);
  EXPECT_GT(MaxDifference(a.parameters().w_q, c.parameters().w_q), 0.1);
  EXPECT_GT(MaxDifference(a.parameters().w_q, a.parameters().w_k), 0.1);
}

TEST(MultiHeadAttentionTest, CountsParameters) {
  EXPECT_EQ(ParameterCount({.d_model = 512, .heads = 8}), 4 * 512 * 512);
  EXPECT_EQ(ParameterCount({.d_model = 512, .heads = 1}), 4 * 512 * 512);
  EXPECT_EQ(
      ParameterCount({.d_model = 512, .heads = 8, .output_projection = false}),
      3 * 512 * 512);
  const Config all{.d_model = 6,
                   .heads = 4,
                   .head_dim = 3,
                   .kv_heads = 2,
                   .source_dim = 5,
                   .bias = true};
  int64_t counted = 0;
  const MultiHeadAttentionParameters parameters(all);
  MultiHeadAttentionParameters::VisitFields(
      parameters, [&](const char*, const Tensor& t, const char*) {
        if (t.rank() > 0) counted += t.size();
      });
  EXPECT_EQ(ParameterCount(all), counted);
}

std::string MessageOf(const Config& config) {
  try {
    Resolve(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(MultiHeadAttentionTest, SaysWhyAWidthDoesNotSplit) {
  using testing::HasSubstr;
  const std::string message = MessageOf({.d_model = 10, .heads = 3});
  EXPECT_THAT(message, HasSubstr("10 / 3 leaves 1"));
  EXPECT_THAT(message, HasSubstr("equal share"));
  EXPECT_THAT(message, HasSubstr("head_dim"));
  EXPECT_EQ(MessageOf({.d_model = 10, .heads = 3, .head_dim = 4}), "");
}

TEST(MultiHeadAttentionTest, RefusesImpossibleSizes) {
  EXPECT_NE(MessageOf({.d_model = 0, .heads = 1}), "");
  EXPECT_NE(MessageOf({.d_model = 8, .heads = 0}), "");
  EXPECT_NE(MessageOf({.d_model = 8, .heads = -2}), "");
  EXPECT_NE(MessageOf({.d_model = 8, .heads = 4, .kv_heads = 3}), "");
  EXPECT_NE(MessageOf({.d_model = int64_t{1} << 40, .heads = 1}), "");
}

TEST(MultiHeadAttentionTest, RefusesWrongInputs) {
  Context context({.threads = 1, .implementations = ""});
  const MultiHeadAttention module({.d_model = 4, .heads = 2});
  const Tensor narrow = Random({1, 3, 3}, 1), x = Random({1, 3, 4}, 1);
  const Tensor two = Random({2, 3, 4}, 1);
  EXPECT_THROW(module.Forward(context, {}), Error);
  EXPECT_THROW(module.Forward(context, {.x = narrow.view()}), Error);
  EXPECT_THROW(module.Forward(context, {.x = x.view(), .source = two.view()}),
               Error);
  EXPECT_THROW(module.Weights(context, 2, {.x = x.view()}), Error);
  EXPECT_THROW(module.Weights(context, 0, {}), Error);
  EXPECT_THROW(module.Metric(context, -1), Error);
}

}  // namespace
}  // namespace headwise::multi_head_attention_test
