// Micro-benchmarks of matrix products on one thread, weights packed once and at
// every call. The table beside peers is `headwise bench matmul`.
#include <benchmark/benchmark.h>

#include <cstdint>

#include "headwise/base/rng.h"
#include "headwise/ops/matmul/matmul.h"

namespace headwise {
namespace {

void Fill(Tensor& t, uint64_t stream) {
  Rng rng(7, stream);
  for (int64_t i = 0; i < t.size(); ++i) {
    t.Raw<float>()[i] = static_cast<float>(rng.Normal());
  }
}

// Arguments: m, n, k, whether B is packed beforehand.
void Product(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  Context context({1, "matmul:cpu.f32"});
  Tensor a(DType::kF32, {m, k});
  Tensor b(DType::kF32, {n, k});
  Tensor c(DType::kF32, {m, n});
  Fill(a, 0);
  Fill(b, 1);
  MatmulArgs args;
  args.a = a.view();
  args.c = c.view();
  std::shared_ptr<PreparedWeights> weights;
  if (state.range(3) != 0) {
    weights = Prepare({b.view()}, Operand::kTransposed);
    args.weights = weights.get();
  } else {
    args.b = b.view();
  }
  for (auto _ : state) {
    Matmul(context, {m, n, k, Operand::kPlain, Operand::kTransposed}, args);
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(m * n * k),
                         benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(Product)
    ->ArgNames({"m", "n", "k", "packed"})
    ->Unit(benchmark::kMicrosecond)
    ->Args({4, 16, 16, 1})  // what a call costs beside the product
    ->Args({128, 384, 384, 1})
    ->Args({128, 384, 384, 0})
    ->Args({128, 1536, 384, 1})
    ->Args({1024, 768, 768, 1})
    ->Args({1, 4096, 4096, 1});

}  // namespace
}  // namespace headwise
