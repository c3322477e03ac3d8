// Time of a small call of MultiHeadAttention beside loops that anyone would
// write: the library's overhead, which a long sequence hides. Arguments: N, the
// width where it is not 64, and threads where the library runs.
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/multi_head_attention.h"

namespace headwise {
namespace {

constexpr int64_t kWidth = 64;
constexpr int64_t kHeads = 8;
constexpr int64_t kDim = kWidth / kHeads;

Tensor Input(int64_t n, int64_t width = kWidth) {
  Tensor x(DType::kF32, {1, n, width});
  Rng rng(7);
  for (int64_t i = 0; i < x.size(); ++i) {
    x.As<float>()[i] = static_cast<float>(rng.Normal());
  }
  return x;
}

void Forward(benchmark::State& state) {
  const int64_t n = state.range(0), width = state.range(1);
  Context context({.threads = static_cast<int>(state.range(2))});
  const MultiHeadAttention module({.d_model = width, .heads = width / kDim}, 1);
  const Tensor x = Input(n, width);
  Tensor out(DType::kF32, {1, n, width});
  for (auto _ : state) {
    module.Forward(context, {.x = x.view()}, out.view());
    benchmark::DoNotOptimize(out.As<float>());
  }
}
BENCHMARK(Forward)
    ->ArgsProduct({{1, 8, 32}, {16, kWidth}, {1, 2}})
    ->UseRealTime();

void Operator(benchmark::State& state) {
  Context context({.threads = static_cast<int>(state.range(1))});
  const int64_t n = state.range(0);
  const Tensor x = Input(n);
  Tensor out(DType::kF32, {1, n, kWidth});
  const ConstTensorView heads(x.As<float>(), DType::kF32, {1, n, kHeads, kDim});
  AttentionProblem problem;
  problem.heads = problem.kv_heads = kHeads;
  problem.query_len = problem.key_len = n;
  problem.head_dim = kDim;
  const AttentionArgs args = {
      .q = heads,
      .k = heads,
      .v = heads,
      .out = {out.As<float>(), DType::kF32, {1, n, kHeads, kDim}}};
  for (auto _ : state) {
    AttentionForward(context, problem, args);
    benchmark::DoNotOptimize(out.As<float>());
  }
}
BENCHMARK(Operator)->ArgsProduct({{1, 8, 32}, {1, 2}})->UseRealTime();

// y = x w, [n, width] by [width, width].
void Project(const float* x, const float* w, int64_t n, int64_t width,
             float* y) {
  for (int64_t i = 0; i < n; ++i) {
    float* row = y + i * width;
    for (int64_t j = 0; j < width; ++j) row[j] = 0;
    for (int64_t k = 0; k < width; ++k) {
      for (int64_t j = 0; j < width; ++j) {
        row[j] += x[i * width + k] * w[k * width + j];
      }
    }
  }
}

// heads = softmax(q kᵀ/√D) v of each head, all [n, width]; a: room for a row.
void Attend(const float* q, const float* k, const float* v, int64_t n,
            int64_t width, float* a, float* heads) {
  for (int64_t h = 0; h < width; h += kDim) {
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < n; ++j) {
        float dot = 0;
        for (int64_t d = h; d < h + kDim; ++d) {
          dot += q[i * width + d] * k[j * width + d];
        }
        sum += a[j] = std::exp(dot / std::sqrt(float{kDim}));
      }
      for (int64_t d = h; d < h + kDim; ++d) {
        float value = 0;
        for (int64_t j = 0; j < n; ++j) value += a[j] * v[j * width + d];
        heads[i * width + d] = value / sum;
      }
    }
  }
}

void Naive(benchmark::State& state) {
  const int64_t n = state.range(0), width = state.range(1);
  const MultiHeadAttention module({.d_model = width, .heads = width / kDim}, 1);
  const MultiHeadAttentionParameters& p = module.parameters();
  const Tensor x = Input(n, width);
  std::vector<float> q(n * width), k(q), v(q), heads(q), out(q), a(n);
  for (auto _ : state) {
    const float* input = x.As<float>();
    Project(input, p.w_q.As<float>(), n, width, q.data());
    Project(input, p.w_k.As<float>(), n, width, k.data());
    Project(input, p.w_v.As<float>(), n, width, v.data());
    Attend(q.data(), k.data(), v.data(), n, width, a.data(), heads.data());
    Project(heads.data(), p.w_o.As<float>(), n, width, out.data());
    benchmark::DoNotOptimize(out.data());
  }
}
BENCHMARK(Naive)->ArgsProduct({{1, 8, 32}, {16, kWidth}})->UseRealTime();

}  // namespace
}  // namespace headwise
