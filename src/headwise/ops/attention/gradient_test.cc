// The reference's backward pass against central differences of the dense loss
// in double (dense_oracle.h): q, k, v, gates (at 0 too), relative table, sink
// logits, with soft-cap, biases, μ, entropy gradient, grouped heads, ragged and
// packed.
#include <gtest/gtest.h>

#include <cmath>

#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/testing/dense_oracle.h"
#include "headwise/ops/attention/testing/random_problem.h"
#include "headwise/tensor/element.h"

namespace headwise::gradient_test {
namespace {

constexpr double kStep = 1e-5;
// Central differences in double leave ~1e-9; results are rounded to f32.
constexpr double kTolerance = 2e-6;

class GradientCheck {
 public:
  explicit GradientCheck(uint64_t seed)
      : r_(MakeRandomProblem(seed, {.work = 4e3, .max_len = 9})),
        rng_(seed, 2),
        args_(r_.args) {
    for (ConstTensorView* view : {&args_.q, &args_.k, &args_.v, &args_.gates,
                                  &args_.relative_table, &args_.sink_logits}) {
      if (*view) *view = ToDouble(*view).view();
    }
  }

  void Run() {
    SCOPED_TRACE(r_.Text());
    const AttentionProblem& p = r_.problem;
    const ViewSizes n = SizesOf(p, r_.args);
    AttentionArgs args = r_.args;
    args.out = Add(p.type, {n.batch, n.queries, p.heads, ValueDim(p)}).view();
    args.ungated =
        Add(p.type, {n.batch, n.queries, p.heads, ValueDim(p)}).view();
    args.lse = Add(DType::kF32, {n.batch, p.heads, n.queries}).view();
    AttentionGrads grads;
    grads.dout = r_.dout;
    grads.dentropy = r_.dentropy;
    TestTensor& dq = Add(p.type, {n.batch, n.queries, p.heads, p.head_dim});
    TestTensor& dk = Add(p.type, {n.batch, n.keys, p.kv_heads, p.head_dim});
    TestTensor& dv = Add(p.type, {n.batch, n.keys, p.kv_heads, ValueDim(p)});
    TestTensor& dg = Add(DType::kF32, {n.batch, n.queries, p.heads});
    TestTensor& dt = Add(DType::kF32, {p.heads, 2 * p.relative_reach + 1});
    dt.FillUniform(rng_, 0, 0);
    TestTensor& ds = Add(DType::kF32, {p.heads});
    ds.FillUniform(rng_, 0, 0);
    grads.dq = dq.view();
    grads.dk = dk.view();
    grads.dv = dv.view();
    grads.dgates = dg.view();
    if (args.relative_table) grads.drelative_table = dt.view();
    if (args.sink_logits) grads.dsink_logits = ds.view();
    Context context({.threads = 1, .implementations = "attention:reference"});
    AttentionForward(context, p, args);
    AttentionBackward(context, p, args, grads);
    Compare("dq", dq, args_.q, 2);
    Compare("dk", dk, args_.k, -1);
    Compare("dv", dv, args_.v, -1);
    if (args.gates) Compare("dgates", dg, args_.gates, 2);
    if (args.relative_table) Compare("dtable", dt, args_.relative_table, -1);
    if (args.sink_logits) Compare("dsink", ds, args_.sink_logits, -1);
  }

 private:
  TestTensor& Add(DType type, const std::vector<int64_t>& shape) {
    return tensors_.emplace_back(type, shape, Layout::kDense, rng_);
  }

  // The same numbers, dense and in f64: broadcasts become values of their own.
  TestTensor& ToDouble(ConstTensorView view) {
    const std::vector<int64_t> shape(view.shape.begin(),
                                     view.shape.begin() + view.rank);
    TestTensor& copy = Add(DType::kF64, shape);
    for (int64_t n = 0; n < copy.size(); ++n) {
      int64_t at = 0;
      for (int axis = 0; axis < view.rank; ++axis) {
        at += copy.Index(n, axis) * view.stride[axis];
      }
      ConstTensorView flat = view;
      flat.stride[0] = 1;
      copy.Set(n, Read(flat, at));
    }
    return copy;
  }

  double Loss() const {
    return DenseLoss(r_.problem, args_, r_.dout, r_.dentropy);
  }

  // Up to 30 elements of a gradient; inactive heads' are untouched.
  void Compare(const char* name, const TestTensor& gradient,
               const ConstTensorView& input, int head_axis) {
    double* values = const_cast<double*>(input.As<double>());
    const int64_t size = gradient.size();
    for (int64_t count = std::min<int64_t>(size, 30); count > 0; --count) {
      const int64_t n = static_cast<int64_t>(rng_.Below(size));
      const auto& active = r_.active_heads;
      if (head_axis >= 0 && !active.empty() &&
          std::find(active.begin(), active.end(),
                    gradient.Index(n, head_axis)) == active.end()) {
        EXPECT_TRUE(gradient.IsPoison(n)) << name;
        continue;
      }
      const double value = values[n];
      values[n] = value + kStep;
      const double above = Loss();
      values[n] = value - kStep;
      const double below = Loss();
      values[n] = value;
      const double expected = (above - below) / (2 * kStep);
      EXPECT_LE(std::abs(expected - gradient.Get(n)),
                kTolerance * std::max(1.0, std::abs(expected)))
          << name << gradient.IndexText(n) << ": expected " << expected
          << ", found " << gradient.Get(n);
    }
  }

  const RandomProblem r_;
  Rng rng_;
  std::deque<TestTensor> tensors_;
  AttentionArgs args_;  // f64 where a gradient is taken
};

TEST(AttentionReference, BackwardAgreesWithFiniteDifferences) {
  const uint64_t first = TestSeed();
  for (int64_t n = 0; n < TestProblems(300) && !testing::Test::HasFailure();
       ++n) {
    GradientCheck(first + n).Run();
  }
}

}  // namespace
}  // namespace headwise::gradient_test
