// Sink logits beyond agreement with the reference (agreement_test.cc): what
// they are (one more key without a value), and their limits. For every
// implementation that takes f32 on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/testing/tolerances.h"

namespace headwise::sink_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kTolerance = 2e-5;

// A call with every result that a sink changes. Two heads on one unless said
// otherwise; keys and queries end together, as in decoding.
struct Call {
  Call(int64_t queries, int64_t keys, int64_t heads = 2, int64_t dim = 16)
      : q(DType::kF32, {1, queries, heads, dim}),
        k(DType::kF32, {1, keys, 1, dim}),
        v(DType::kF32, {1, keys, 1, dim}),
        sinks(DType::kF32, {heads}),
        out(DType::kF32, {1, queries, heads, dim}),
        lse(DType::kF32, {1, heads, queries}),
        entropy(DType::kF32, {1, heads, queries}),
        varentropy(DType::kF32, {1, heads, queries}),
        maximum(DType::kF32, {1, heads, queries}),
        missing(DType::kF32, {1, heads, queries}),
        sums(DType::kF64, {1, heads, kSumColumns}),
        dout(DType::kF32, {1, queries, heads, dim}),
        dq(DType::kF32, {1, queries, heads, dim}),
        dk(DType::kF32, {1, keys, 1, dim}),
        dv(DType::kF32, {1, keys, 1, dim}),
        dsinks(DType::kF32, {heads}) {
    problem.heads = heads;
    problem.query_len = queries;
    problem.key_len = keys;
    problem.head_dim = dim;
    problem.mask = AttentionMask::Causal(keys - queries);
    Rng rng(static_cast<uint64_t>(queries + 1000 * keys));
    for (Tensor* t : {&q, &k, &v, &dout}) {
      for (int64_t n = 0; n < t->size(); ++n) {
        t->As<float>()[n] = static_cast<float>(rng.Normal());
      }
    }
    args.q = q.view();
    args.k = k.view();
    args.v = v.view();
    args.sink_logits = sinks.view();
    args.out = out.view();
    args.lse = lse.view();
    o.statistics = Statistics::kFull;
    o.rows.entropy = entropy.view();
    o.rows.varentropy = varentropy.view();
    o.rows.max_probability = maximum.view();
    o.rows.missing = missing.view();
    o.summed.sums = sums.view();
    args.observation = &o;
    grads.dout = dout.view();
    grads.dq = dq.view();
    grads.dk = dk.view();
    grads.dv = dv.view();
    grads.dsink_logits = dsinks.view();
  }

  void SetSinks(float logit) {
    std::fill_n(sinks.As<float>(), sinks.size(), logit);
  }
  void Forward(Context& context) { AttentionForward(context, problem, args); }
  void Run(Context& context) {
    Forward(context);
    AttentionBackward(context, problem, args, grads);
  }

  AttentionProblem problem;
  Tensor q, k, v, sinks, out, lse, entropy, varentropy, maximum, missing, sums;
  Tensor dout, dq, dk, dv, dsinks;
  Observation o;
  AttentionArgs args;
  AttentionGrads grads;
};

void ExpectClose(const Tensor& expected, const Tensor& found, double tolerance,
                 const char* name) {
  ASSERT_EQ(expected.size(), found.size());
  for (int64_t n = 0; n < found.size(); ++n) {
    const double a = expected.As<float>()[n], b = found.As<float>()[n];
    ASSERT_LE(std::abs(a - b), tolerance * std::max(1.0, std::abs(a)))
        << name << " " << n << ": expected " << a << ", found " << b;
  }
}

void ExpectSameBits(const Tensor& a, const Tensor& b, const char* name) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.As<float>(), b.As<float>(), a.size() * sizeof(float)),
            0)
      << name;
}

class AttentionSinks : public testing::TestWithParam<std::string> {
 protected:
  Context context_{
      {.threads = 2, .implementations = "attention:" + GetParam()}};
};

// Queries and keys of the decoding path, of one tile and of several.
constexpr std::pair<int64_t, int64_t> kLengths[] = {
    {1, 1}, {1, 40}, {4, 70}, {9, 9}, {130, 130}, {70, 200}};

// The same keys behind one whose score is 0 and whose value is 0.
TEST_P(AttentionSinks, AreAKeyWithoutAValue) {
  for (const auto& [queries, keys] : kLengths) {
    SCOPED_TRACE(keys);
    Call sink(queries, keys);
    sink.Run(context_);
    Call key(queries, keys + 1);
    key.problem.mask.query_offset = keys - queries + 1;
    key.args.sink_logits = {};
    key.grads.dsink_logits = {};
    const int64_t row = sink.problem.head_dim;
    std::copy_n(sink.q.As<float>(), sink.q.size(), key.q.As<float>());
    std::copy_n(sink.dout.As<float>(), sink.q.size(), key.dout.As<float>());
    for (const auto& [from, to] :
         {std::pair(&sink.k, &key.k), std::pair(&sink.v, &key.v)}) {
      std::fill_n(to->As<float>(), row, 0.0f);
      std::copy_n(from->As<float>(), from->size(), to->As<float>() + row);
    }
    key.Run(context_);
    ExpectClose(key.out, sink.out, 4 * kTolerance, "out");  // |v| < 4
    ExpectClose(key.lse, sink.lse, kTolerance, "lse");
    ExpectClose(key.dq, sink.dq, 1e-4, "dq");
    // The added key's score does not depend on what it holds: it has no row.
    for (const auto& [expected, found, name] :
         {std::tuple(&key.dk, &sink.dk, "dk"),
          std::tuple(&key.dv, &sink.dv, "dv")}) {
      for (int64_t n = 0; n < found->size(); ++n) {
        const double a = expected->As<float>()[n + row];
        ASSERT_NEAR(a, found->As<float>()[n], 1e-4 * std::max(1.0, std::abs(a)))
            << name << " " << n;
      }
    }
    for (int64_t n = 0; n < sink.lse.size(); ++n) {
      const double log_a = -key.lse.As<float>()[n];
      const double a = std::exp(log_a);
      EXPECT_NEAR(sink.missing.As<float>()[n], a, kTolerance);
      const double entropy = key.entropy.As<float>()[n] + a * log_a;
      EXPECT_NEAR(sink.entropy.As<float>()[n], entropy, 3 * kTolerance);
      // Of second moments about 0.
      const double other = key.entropy.As<float>()[n];
      const double moment = key.varentropy.As<float>()[n] + other * other;
      EXPECT_NEAR(sink.varentropy.As<float>()[n],
                  moment - a * log_a * log_a - entropy * entropy,
                  10 * kTolerance);
    }
  }
}

TEST_P(AttentionSinks, OfMinusInfinityAreNone) {
  for (const auto& [queries, keys] : kLengths) {
    SCOPED_TRACE(keys);
    Call without(queries, keys);
    without.args.sink_logits = {};
    without.grads.dsink_logits = {};
    without.Run(context_);
    for (const float logit : {-kInfinity, -300.0f}) {
      Call with(queries, keys);
      with.SetSinks(logit);
      with.Run(context_);
      ExpectSameBits(with.out, without.out, "out");
      ExpectSameBits(with.lse, without.lse, "lse");
      ExpectSameBits(with.dq, without.dq, "dq");
      ExpectSameBits(with.dk, without.dk, "dk");
      ExpectSameBits(with.dv, without.dv, "dv");
      for (int64_t h = 0; h < 2; ++h) EXPECT_EQ(with.dsinks.As<float>()[h], 0);
    }
  }
}

TEST_P(AttentionSinks, FarAboveTheKeysTakeAll) {
  for (const auto& [queries, keys] : kLengths) {
    for (const float logit : {200.0f, 5000.0f, 1e30f}) {
      SCOPED_TRACE(logit);
      Call call(queries, keys);
      call.SetSinks(logit);
      call.Run(context_);
      for (int64_t n = 0; n < call.lse.size(); ++n) {
        ASSERT_FLOAT_EQ(call.lse.As<float>()[n], logit);
        ASSERT_EQ(call.missing.As<float>()[n], 1);
        ASSERT_NEAR(call.entropy.As<float>()[n], 0, 1e-30);
        ASSERT_NEAR(call.varentropy.As<float>()[n], 0, 1e-30);
        ASSERT_NEAR(call.maximum.As<float>()[n], 0, 1e-30);
      }
      for (const Tensor* t :
           {&call.out, &call.dq, &call.dk, &call.dv, &call.dsinks}) {
        for (int64_t n = 0; n < t->size(); ++n) {
          ASSERT_NEAR(t->As<float>()[n], 0, 1e-30);
        }
      }
      const double* sums = call.sums.As<double>();
      EXPECT_DOUBLE_EQ(sums[kSumMissing], static_cast<double>(queries));
      EXPECT_EQ(sums[kSumNonFinite], 0);
    }
  }
}

TEST_P(AttentionSinks, GetNothingOfRowsThatSeeNoKey) {
  for (const int64_t queries : {2, 6}) {
    Call call(queries, 3);
    call.problem.mask.query_offset = -2;  // the first two see nothing
    call.SetSinks(1);
    call.Run(context_);
    Call later(queries, 3);
    later.problem.mask.query_offset = -2;
    later.SetSinks(1);
    for (int64_t n = 0; n < 2 * 16 * 2; ++n) later.dout.As<float>()[n] = 99;
    later.Run(context_);
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < 2; ++i) {
        EXPECT_EQ(call.lse.As<float>()[h * queries + i], -kInfinity);
        EXPECT_EQ(call.missing.As<float>()[h * queries + i], 0);
        EXPECT_EQ(call.entropy.As<float>()[h * queries + i], 0);
        EXPECT_EQ(call.out.As<float>()[(i * 2 + h) * 16], 0);
      }
      EXPECT_EQ(call.dsinks.As<float>()[h], later.dsinks.As<float>()[h]);
      EXPECT_EQ(call.sums.As<double>()[h * kSumColumns + kSumCount],
                queries - 2);
    }
  }
}

TEST_P(AttentionSinks, ThatAreNoNumberSpoilTheirHeadOnly) {
  for (const float logit : {std::nanf(""), kInfinity}) {
    for (const int64_t queries : {1, 20}) {
      Call call(queries, 20);
      call.sinks.As<float>()[1] = logit;
      call.Forward(context_);
      for (int64_t i = 0; i < queries; ++i) {
        EXPECT_TRUE(std::isfinite(call.out.As<float>()[i * 2 * 16]));
        EXPECT_TRUE(std::isnan(call.out.As<float>()[(i * 2 + 1) * 16]));
        EXPECT_TRUE(std::isfinite(call.missing.As<float>()[i]));
        EXPECT_TRUE(std::isnan(call.missing.As<float>()[queries + i]));
        EXPECT_TRUE(std::isnan(call.entropy.As<float>()[queries + i]));
        EXPECT_FALSE(std::isfinite(call.lse.As<float>()[queries + i]));
      }
      const double* sums = call.sums.As<double>();
      EXPECT_EQ(sums[kSumNonFinite], 0);
      EXPECT_EQ(sums[kSumColumns + kSumNonFinite], queries);
      EXPECT_EQ(sums[kSumColumns + kSumMissing], 0);
    }
  }
}

TEST_P(AttentionSinks, OfInactiveHeadsGetNoGradient) {
  Call call(30, 30);
  const std::vector<int32_t> active = {1};
  call.args.active_heads = active;
  call.dsinks.As<float>()[0] = 5;
  call.dsinks.As<float>()[1] = 5;
  call.Run(context_);
  EXPECT_EQ(call.dsinks.As<float>()[0], 5);
  EXPECT_NE(call.dsinks.As<float>()[1], 5);
}

// Sinks of a model with eight query heads to a key/value head and a window of
// 128 in every second layer, by the dense formula: softmax over a row of scores
// with the sink's logit behind them, whose column is then dropped.
std::vector<double> DenseOutputs(const Call& call, int64_t i, int64_t h) {
  const int64_t dim = call.problem.head_dim, heads = call.problem.heads;
  const float* q = call.q.As<float>() + (i * heads + h) * dim;
  std::vector<double> scores;
  for (int64_t j = 0; j < call.problem.key_len; ++j) {
    const int64_t p = i + call.problem.mask.query_offset;
    if (j > p || p - j > call.problem.mask.before) {
      scores.push_back(-INFINITY);
      continue;
    }
    double dot = 0;
    for (int64_t d = 0; d < dim; ++d) {
      dot += double{q[d]} * call.k.As<float>()[j * dim + d];
    }
    scores.push_back(dot / std::sqrt(static_cast<double>(dim)));
  }
  scores.push_back(call.sinks.As<float>()[h]);
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - most);
  std::vector<double> o(dim);
  for (int64_t j = 0; j < call.problem.key_len; ++j) {
    for (int64_t d = 0; d < dim; ++d) {
      o[d] += scores[j] / sum * call.v.As<float>()[j * dim + d];
    }
  }
  return o;
}

TEST_P(AttentionSinks, AreThoseOfWindowedLayersWithGroupedHeads) {
  constexpr int64_t kHeads = 8, kDim = 64, kKeys = 190;
  for (const int64_t window : {int64_t{128}, kKeys}) {
    for (const int64_t queries : {int64_t{1}, kKeys}) {
      SCOPED_TRACE(queries);
      Call call(queries, kKeys, kHeads, kDim);
      call.problem.mask = AttentionMask::SlidingWindow(window, kKeys - queries);
      for (int64_t h = 0; h < kHeads; ++h) {
        call.sinks.As<float>()[h] = static_cast<float>(h) - 3.0f;
      }
      call.args.observation = nullptr;
      call.args.lse = {};  // as a forward of nothing but the output
      call.Forward(context_);
      for (const int64_t i : {int64_t{0}, queries / 2, queries - 1}) {
        for (int64_t h = 0; h < kHeads; ++h) {
          const std::vector<double> expected = DenseOutputs(call, i, h);
          const float* found = call.out.As<float>() + (i * kHeads + h) * kDim;
          for (int64_t d = 0; d < kDim; ++d) {
            ASSERT_NEAR(found[d], expected[d], 4 * kTolerance) << h << " " << d;
          }
        }
      }
    }
  }
}

std::vector<std::string> HostNames() {
  AttentionProblem plain;
  plain.head_dim = 1;
  std::vector<std::string> names;
  for (const AttentionImplementation& entry :
       AttentionImplementations().entries) {
    if (WhyNot(entry, AttentionPass::kForward, plain).empty()) {
      names.push_back(entry.name);
    }
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Host, AttentionSinks, testing::ValuesIn(HostNames()),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace headwise::sink_test
