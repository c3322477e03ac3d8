// Micro-benchmarks of cpu.f32: the passes side by side on one thread, 8 heads,
// so that a change to a tile shows in all that use it. The table beside peers
// is `headwise bench attention`.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "headwise/attention.h"
#include "headwise/base/rng.h"
#include "headwise/observation.h"

namespace headwise {
namespace {

constexpr int64_t kHeads = 8;

// Arguments of a benchmark: length, head_dim, causal.
struct Call {
  explicit Call(const benchmark::State& state)
      : n(state.range(0)), dim(state.range(1)) {
    problem.heads = problem.kv_heads = kHeads;
    problem.query_len = problem.key_len = n;
    problem.head_dim = dim;
    if (state.range(2) != 0) problem.mask = AttentionMask::Causal();
    args.q = Random(0);
    args.k = Random(1);
    args.v = Random(2);
    args.out = Random(3);
    tensors.emplace_back(DType::kF32,
                         std::initializer_list<int64_t>{1, kHeads, n});
    args.lse = tensors.back().view();
    AttentionForward(context, problem, args);
  }

  TensorView Random(uint64_t stream) {
    tensors.emplace_back(DType::kF32,
                         std::initializer_list<int64_t>{1, n, kHeads, dim});
    Tensor& t = tensors.back();
    Rng rng(7, stream);
    for (int64_t i = 0; i < t.size(); ++i) {
      t.Raw<float>()[i] = static_cast<float>(rng.Normal());
    }
    return t.view();
  }

  int64_t n, dim;
  Context context{ContextOptions{1, "attention:cpu.f32"}};
  AttentionProblem problem;
  AttentionArgs args;
  std::vector<Tensor> tensors;
};

// Products of 2·D operations per visible pair, of which the forward makes two.
void Report(benchmark::State& state, const Call& call, double products) {
  const double operations = AttentionFlops(call.problem) / 2 * products;
  state.counters["GFLOP/s"] = benchmark::Counter(
      operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void Forward(benchmark::State& state) {
  Call call(state);
  for (auto _ : state) {
    AttentionForward(call.context, call.problem, call.args);
  }
  Report(state, call, 2);
}

// With the statistics of range(3), summed per head.
void Observed(benchmark::State& state) {
  Call call(state);
  Tensor sums(DType::kF64, {1, kHeads, kSumColumns});
  Tensor histogram(DType::kF64, {1, kHeads, kHistogramBuckets});
  Observation observation;
  observation.statistics = static_cast<Statistics>(state.range(3));
  observation.summed.sums = sums.view();
  if (observation.statistics == Statistics::kFull) {
    observation.summed.histogram = histogram.view();
  }
  call.args.observation = &observation;
  for (auto _ : state) {
    AttentionForward(call.context, call.problem, call.args);
  }
  Report(state, call, 2);
}

void Backward(benchmark::State& state) {
  Call call(state);
  AttentionGrads grads;
  grads.dout = call.Random(4);
  grads.dq = call.Random(5);
  grads.dk = call.Random(6);
  grads.dv = call.Random(7);
  for (auto _ : state) {
    AttentionBackward(call.context, call.problem, call.args, grads);
  }
  Report(state, call, 5);
}

void Received(benchmark::State& state) {
  Call call(state);
  Tensor received(DType::kF32, {1, kHeads, call.n});
  for (auto _ : state) {
    ReceivedAttention(call.context, call.problem, call.args, {},
                      received.view());
  }
  Report(state, call, 1);
}

// Scores are one product; the Gram matrix adds one of depth 8 for 8 heads.
void Gram(benchmark::State& state) {
  Call call(state);
  Tensor gram(DType::kF64, {kHeads, kHeads});
  const std::vector<HeadSource> sources{{call.problem, call.args}};
  for (auto _ : state) {
    HeadGram(call.context, sources, {}, gram.view());
  }
  Report(state, call, 1);
}

// 64 rows spread over the sequence.
void Rows(benchmark::State& state) {
  Call call(state);
  std::vector<RowRef> rows;
  for (int64_t r = 0; r < 64; ++r) rows.push_back({0, r * call.n / 64});
  Tensor dense(DType::kF32, {64, kHeads, call.n});
  for (auto _ : state) {
    AttentionRows(call.context, call.problem, call.args, rows, dense.view());
  }
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"n", "d", "causal"})->Unit(benchmark::kMillisecond);
  for (int64_t causal : {0, 1}) bench->Args({2048, 64, causal});
  bench->Args({2048, 128, 0})->Args({512, 64, 0});
}

BENCHMARK(Forward)->Apply(Shapes);
BENCHMARK(Observed)
    ->ArgNames({"n", "d", "causal", "level"})
    ->Unit(benchmark::kMillisecond)
    ->Args({2048, 64, 0, static_cast<int64_t>(Statistics::kCore)})
    ->Args({2048, 64, 0, static_cast<int64_t>(Statistics::kFull)})
    ->Args({2048, 64, 1, static_cast<int64_t>(Statistics::kCore)})
    ->Args({2048, 64, 1, static_cast<int64_t>(Statistics::kFull)});
BENCHMARK(Backward)->Apply(Shapes);
BENCHMARK(Received)->Apply(Shapes);
BENCHMARK(Gram)->Apply(Shapes);
BENCHMARK(Rows)->Apply(Shapes);

}  // namespace
}  // namespace headwise
