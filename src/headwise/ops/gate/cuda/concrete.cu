// Hard concrete gates on CUDA, in f64 up to the gate; a head's gradient from
// partial sums of blocks of tokens that are added in order. Door: steps.h.
#include <algorithm>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/strided.cuh"
#include "headwise/ops/gate/cuda/sequences.cuh"
#include "headwise/ops/gate/cuda/steps.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kLeastTokensPerSum = 1024, kMostSums = 128;

__device__ double Sigmoid(double x) { return 1 / (1 + exp(-x)); }

__device__ double Open(const ConcreteProblem& p, double log_alpha) {
  return Sigmoid(log_alpha - p.temperature * log(-p.low / p.high));
}

// gates and slopes [sequences, heads]; noise may be null.
__global__ void DrawKernel(ConcreteProblem p, const float* log_alpha,
                           const double* noise, int64_t heads, int64_t count,
                           float* gates, float* slopes) {
  const int64_t i = cuda::ThreadIndex<int64_t>();
  if (i >= count) return;
  double x = log_alpha[i % heads], by = 1;
  if (noise != nullptr) {
    x = (log(noise[i]) - log1p(-noise[i]) + x) / p.temperature;
    by = 1 / p.temperature;
  }
  const double s = Sigmoid(x), width = p.high - p.low;
  const double wide = s * width + p.low;
  gates[i] = static_cast<float>(fmin(fmax(wide, 0.0), 1.0));
  slopes[i] = wide > 0 && wide < 1
                  ? static_cast<float>(width * s * (1 - s) * by)
                  : 0.0f;
}

__global__ void OpenKernel(ConcreteProblem p, const float* log_alpha,
                           int64_t heads, double* open) {
  const int64_t head = cuda::ThreadIndex<int64_t>();
  if (head < heads) open[head] = Open(p, log_alpha[head]);
}

// sums [heads, gridDim.x]; a block a head and a block of tokens.
__global__ void SlopesKernel(const int32_t* starts, int64_t sequences,
                             const float* slopes, const float* dgates,
                             int64_t heads, int64_t tokens,
                             int64_t tokens_per_sum, double* sums) {
  const int64_t head = blockIdx.y;
  const int64_t begin = blockIdx.x * tokens_per_sum;
  const int64_t end = min(begin + tokens_per_sum, tokens);
  double sum = 0;
  for (int64_t t = begin + threadIdx.x; t < end; t += kThreads) {
    const int64_t b = SequenceOf(starts, sequences, t);
    sum += static_cast<double>(slopes[b * heads + head]) *
           static_cast<double>(dgates[t * heads + head]);
  }
  sum = cuda::BlockSum64(sum);
  if (threadIdx.x == 0) sums[head * gridDim.x + blockIdx.x] = sum;
}

__global__ void AddSlopesKernel(ConcreteProblem p, const float* log_alpha,
                                const double* sums, int64_t count,
                                int64_t heads, float penalty,
                                float* dlog_alpha) {
  const int64_t head = cuda::ThreadIndex<int64_t>();
  if (head >= heads) return;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += sums[head * count + i];
  const double open = Open(p, log_alpha[head]);
  sum += penalty * open * (1 - open);
  dlog_alpha[head] += static_cast<float>(sum);
}

dim3 BlocksFor(int64_t count) { return dim3(cuda::CeilDiv(count, kThreads)); }

void Forward(Context& context, const ConcreteCall& call) {
  const ConcreteArgs& a = call.args;
  const int64_t heads = a.log_alpha.shape[0], sequences = a.slopes.shape[0];
  const float* log_alpha = a.log_alpha.Raw<float>();
  if (a.open) {
    cuda::Launch(context, "open gates", OpenKernel, BlocksFor(heads), kThreads,
                 call.problem, log_alpha, heads, a.open.Raw<double>());
  }
  if (sequences == 0) return;
  const Temp gates(context, DType::kF32, {sequences, heads});
  cuda::Launch(context, "hard concrete gates", DrawKernel,
               BlocksFor(sequences * heads), kThreads, call.problem, log_alpha,
               a.noise.Raw<double>(), heads, sequences * heads,
               gates.view().Raw<float>(), a.slopes.Raw<float>());
  RunOnCuda(context, SequenceGateCall{a.starts, gates.view(), ConstTensorView(),
                                      a.gates});
}

void Backward(Context& context, const ConcreteCall& call) {
  const ConcreteArgs& a = call.args;
  const int64_t heads = a.log_alpha.shape[0];
  const int64_t tokens = call.grads->dgates.shape[0];
  const int64_t tokens_per_sum =
      std::max(kLeastTokensPerSum, cuda::CeilDiv(tokens, kMostSums));
  const int64_t count = cuda::CeilDiv(tokens, tokens_per_sum);
  Temp sums;
  if (count > 0) {
    sums = Temp(context, DType::kF64, {heads, count});
    cuda::Launch(context, "hard concrete gates backward", SlopesKernel,
                 dim3(count, heads), kThreads, a.starts.Raw<int32_t>(),
                 a.slopes.shape[0], a.slopes.Raw<float>(),
                 call.grads->dgates.Raw<float>(), heads, tokens, tokens_per_sum,
                 sums.view().Raw<double>());
  }
  cuda::Launch(context, "hard concrete gates backward", AddSlopesKernel,
               BlocksFor(heads), kThreads, call.problem,
               a.log_alpha.Raw<float>(), sums.view().Raw<double>(), count,
               heads, call.grads->penalty, call.grads->dlog_alpha.Raw<float>());
}

}  // namespace

void RunOnCuda(Context& context, const ConcreteCall& call) {
  if (call.args.log_alpha.shape[0] == 0) return;
  call.grads == nullptr ? Forward(context, call) : Backward(context, call);
}

}  // namespace headwise
