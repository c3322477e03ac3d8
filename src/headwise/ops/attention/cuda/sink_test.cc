// Sink logits on the CUDA paths, by what they do to a call without them: every
// row is scaled by the share that its keys keep. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/test_device.h"

namespace headwise::attention_cuda {
namespace {

constexpr int64_t kKeys = 700, kHeads = 4, kDim = 64;
// None; beside the scores; far above them; so far that no exponential holds it.
constexpr float kSinks[kHeads] = {-INFINITY, 1.5F, 30, 400};

// One causal call with all its results as floats.
class SinkCall {
 public:
  SinkCall(Context& context, int64_t queries, bool has_sinks, DType type)
      : context_(context) {
    problem_.heads = problem_.kv_heads = kHeads;
    problem_.query_len = queries;
    problem_.key_len = kKeys;
    problem_.head_dim = kDim;
    problem_.type = type;
    problem_.device = context.device();
    problem_.mask = AttentionMask::Causal(kKeys - queries);
    Rng rng(7);
    args_.q = Input(rng, queries);
    args_.k = Input(rng, kKeys);
    args_.v = Input(rng, kKeys);
    grads_.dout = Input(rng, queries);
    args_.out = Result(type, {1, queries, kHeads, kDim});
    const Shape rows = {1, kHeads, queries};
    args_.lse = Result(DType::kF32, rows);
    o_.statistics = Statistics::kFull;
    o_.rows.entropy = Result(DType::kF32, rows);
    o_.rows.max_probability = Result(DType::kF32, rows);
    o_.rows.distance = Result(DType::kF32, rows);
    o_.rows.missing = Result(DType::kF32, rows);
    o_.rows.varentropy = Result(DType::kF32, rows);
    o_.rows.sum_squares = Result(DType::kF32, rows);
    o_.summed.sums = Result(DType::kF64, {1, kHeads, kSumColumns});
    args_.observation = &o_;
    if (has_sinks) {
      Tensor sinks(DType::kF32, {kHeads});
      std::copy(kSinks, kSinks + kHeads, sinks.As<float>());
      args_.sink_logits = Moved(sinks, DType::kF32, {kHeads});
      std::fill_n(sinks.As<float>(), kHeads, 1.0F);
      grads_.dsink_logits = Moved(sinks, DType::kF32, {kHeads});
    }
  }

  void Run() {
    AttentionForward(context_, problem_, args_);
    if (args_.sink_logits) {
      AttentionBackward(context_, problem_, args_, grads_);
    }
    lse = Read(args_.lse);
    out = Read(args_.out);
    dout = Read(grads_.dout);
    entropy = Read(o_.rows.entropy);
    best = Read(o_.rows.max_probability);
    distance = Read(o_.rows.distance);
    missing = Read(o_.rows.missing);
    varentropy = Read(o_.rows.varentropy);
    squares = Read(o_.rows.sum_squares);
    sums = ToVector<double>(context_, o_.summed.sums);
    if (grads_.dsink_logits) dsinks = Read(grads_.dsink_logits);
  }

  // ⟨dout, out⟩ of a row.
  double Delta(int64_t head, int64_t row) const {
    double sum = 0;
    for (int64_t c = 0; c < kDim; ++c) {
      const int64_t at = (row * kHeads + head) * kDim + c;
      sum += double{dout[at]} * out[at];
    }
    return sum;
  }

  std::vector<float> lse, out, dout, entropy, best, distance, missing;
  std::vector<float> varentropy, squares, dsinks;
  std::vector<double> sums;

 private:
  TensorView Moved(const Tensor& host, DType type, const Shape& shape) {
    const TensorView there = Result(type, shape);
    Copy(context_, host.view(), there);
    context_.Synchronize();
    return there;
  }
  TensorView Input(Rng& rng, int64_t rows) {
    const Shape shape = {1, rows, kHeads, kDim};
    Tensor host(DType::kF32, shape);
    for (int64_t i = 0; i < host.size(); ++i) {
      host.As<float>()[i] = static_cast<float>(rng.Normal());
    }
    return Moved(host, problem_.type, shape);
  }
  TensorView Result(DType type, const Shape& shape) {
    tensors_.push_back(std::make_unique<Tensor>(context_, type, shape));
    return tensors_.back()->view();
  }
  std::vector<float> Read(const ConstTensorView& view) {
    return ToVector<float>(context_, view);
  }

  Context& context_;
  AttentionProblem problem_;
  AttentionArgs args_;
  AttentionGrads grads_;
  Observation o_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
};

// Every row of `with` is that of `bare`, of which its keys keep a share.
void ExpectScaled(const SinkCall& bare, const SinkCall& with, int64_t queries) {
  for (int64_t h = 0; h < kHeads; ++h) {
    double took = 0;
    for (int64_t i = 0; i < queries; ++i) {
      SCOPED_TRACE(std::to_string(h) + ", " + std::to_string(i));
      const int64_t at = h * queries + i;
      const double top = std::max(bare.lse[at], kSinks[h]);
      const double lse = top + std::log(std::exp(bare.lse[at] - top) +
                                        std::exp(kSinks[h] - top));
      const double kept = std::exp(bare.lse[at] - lse);
      const double log = bare.lse[at] - lse;
      ASSERT_NEAR(with.lse[at], lse, 2e-5 * std::max(1.0, std::abs(lse)));
      ASSERT_NEAR(with.missing[at], 1 - kept, 2e-4);
      took += 1 - kept;
      ASSERT_NEAR(with.best[at], kept * bare.best[at], 1e-4);
      ASSERT_NEAR(with.distance[at], kept * bare.distance[at], 0.5);
      ASSERT_NEAR(with.squares[at], kept * kept * bare.squares[at], 1e-4);
      // A' = kept · A: −Σ A' ln A' and Σ A' ln² A' follow.
      const double h0 = bare.entropy[at];
      const double entropy = kept * h0 - (kept == 0 ? 0 : kept * log);
      ASSERT_NEAR(with.entropy[at], entropy, 1e-3);
      const double square = kept == 0 ? 0
                                      : kept * (bare.varentropy[at] + h0 * h0 -
                                                2 * h0 * log + log * log);
      ASSERT_NEAR(with.varentropy[at], square - entropy * entropy, 2e-3);
      for (int64_t c = 0; c < kDim; ++c) {
        const int64_t o = (i * kHeads + h) * kDim + c;
        ASSERT_NEAR(with.out[o], kept * bare.out[o], 2e-2);
      }
    }
    EXPECT_NEAR(with.sums[h * kSumColumns + kSumMissing], took, 5e-2);
    EXPECT_EQ(bare.sums[h * kSumColumns + kSumMissing], 0);
  }
}

class CudaSinks : public testing::TestWithParam<std::string> {
 protected:
  // queries: of a decoding step, whose keys blocks share, or of a whole pass.
  static void Hold(int64_t queries) {
    const auto context = ContextFor("attention", GetParam());
    if (context == nullptr) GTEST_SKIP() << "no GPU";
    const bool is_plain = GetParam() == "cuda.plain";
    const DType type = is_plain ? DType::kF32 : DType::kBF16;
    SinkCall bare(*context, queries, false, type);
    if (!IsTaken([&] { bare.Run(); })) GTEST_SKIP() << "not for this chip";
    SinkCall with(*context, queries, true, type);
    SinkCall again(*context, queries, true, type);
    with.Run();
    again.Run();
    ExpectScaled(bare, with, queries);
    EXPECT_TRUE(with.dsinks == again.dsinks) << "differs from run to run";
    for (int64_t h = 0; h < kHeads; ++h) {
      double sum = 1, size = 0;  // it is added to
      for (int64_t i = 0; i < queries; ++i) {
        const double term = with.missing[h * queries + i] * with.Delta(h, i);
        sum -= term;
        size += term * term;
      }
      EXPECT_NEAR(with.dsinks[h], sum, 1e-2 * (1 + std::sqrt(size))) << h;
    }
  }
};

TEST_P(CudaSinks, TakeTheirShareOfEveryRow) { Hold(300); }
TEST_P(CudaSinks, TakeTheirShareOfDecodingSteps) { Hold(3); }

INSTANTIATE_TEST_SUITE_P(Every, CudaSinks,
                         testing::Values("cuda.sm90", "cuda.sm80",
                                         "cuda.plain"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace headwise::attention_cuda
