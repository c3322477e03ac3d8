// The router of a mixture on CUDA, a warp a token; shares and means of heads
// from partial sums of blocks of tokens that are added in order. Door: steps.h.
#include <algorithm>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/strided.cuh"
#include "headwise/ops/gate/cuda/steps.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / cuda::kWarp;
constexpr int64_t kLeastTokensPerSum = 1024, kMostSums = 128;

struct Params {
  int64_t tokens = 0, heads = 0, routed = 0, shared = 0, width = 0;
  int64_t top = 0;  // routed heads of a token
  float* routes = nullptr;
  float* gates = nullptr;
  uint8_t* chosen = nullptr;  // [tokens, routed]
};

__device__ int Lane() { return threadIdx.x % cuda::kWarp; }
__device__ int64_t Token() {
  return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / cuda::kWarp;
}

// By a warp, in place; its lanes see the results.
__device__ void Softmax(float* values, int64_t count) {
  float most = -INFINITY;
  for (int64_t i = Lane(); i < count; i += cuda::kWarp) {
    most = fmaxf(most, values[i]);
  }
  for (int step = cuda::kWarp / 2; step > 0; step /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, step));
  }
  float sum = 0;
  for (int64_t i = Lane(); i < count; i += cuda::kWarp) {
    values[i] = expf(values[i] - most);
    sum += values[i];
  }
  sum = cuda::WarpSum(sum);
  for (int64_t i = Lane(); i < count; i += cuda::kWarp) values[i] /= sum;
  __syncwarp();
}

// By a warp, in place: by probabilities p, then by logits.
__device__ void SoftmaxBackward(const float* p, int64_t count, float* d) {
  float mean = 0;
  for (int64_t i = Lane(); i < count; i += cuda::kWarp) mean += p[i] * d[i];
  mean = cuda::WarpSum(mean);
  for (int64_t i = Lane(); i < count; i += cuda::kWarp) {
    d[i] = p[i] * (d[i] - mean);
  }
}

__global__ void ChooseKernel(Params p) {
  const int64_t token = Token();
  if (token >= p.tokens) return;  // a whole warp at once
  float* routes = p.routes + token * p.width;
  float* gates = p.gates + token * p.heads;
  Softmax(routes, p.routed);
  float routed_scale = static_cast<float>(p.routed);
  if (p.shared > 0) {
    float* kinds = routes + p.heads;
    Softmax(routes + p.routed, p.shared);
    Softmax(kinds, 2);
    routed_scale *= 2 * kinds[1];
    for (int64_t i = Lane(); i < p.shared; i += cuda::kWarp) {
      gates[i] =
          2 * kinds[0] * static_cast<float>(p.shared) * routes[p.routed + i];
    }
  }
  for (int64_t i = Lane(); i < p.routed; i += cuda::kWarp) {
    const float own = routes[i];
    int64_t likelier = 0;
    for (int64_t j = 0; j < p.routed; ++j) {
      likelier += routes[j] > own || (routes[j] == own && j < i) ? 1 : 0;
    }
    const bool chosen = likelier < p.top;
    gates[p.shared + i] = chosen ? routed_scale * own : 0.0f;
    p.chosen[token * p.routed + i] = chosen ? 1 : 0;
  }
}

// sums [2, routed, gridDim.x]: how often chosen, and probabilities; a block a
// head and a block of tokens.
__global__ void CountKernel(Params p, int64_t tokens_per_sum, double* sums) {
  const int64_t head = blockIdx.y;
  const int64_t begin = blockIdx.x * tokens_per_sum;
  const int64_t end = min(begin + tokens_per_sum, p.tokens);
  double chosen = 0, mean = 0;
  for (int64_t t = begin + threadIdx.x; t < end; t += kThreads) {
    chosen += p.chosen[t * p.routed + head];
    mean += p.routes[t * p.width + head];
  }
  chosen = cuda::BlockSum64(chosen);
  mean = cuda::BlockSum64(mean);
  if (threadIdx.x != 0) return;
  sums[head * gridDim.x + blockIdx.x] = chosen;
  sums[(p.routed + head) * gridDim.x + blockIdx.x] = mean;
}

__global__ void AddCountsKernel(const double* sums, int64_t count,
                                int64_t routed, int64_t tokens, double* chosen,
                                double* mean) {
  const int64_t head = cuda::ThreadIndex<int64_t>();
  if (head >= routed) return;
  double times = 0, total = 0;
  for (int64_t i = 0; i < count; ++i) {
    times += sums[head * count + i];
    total += sums[(routed + head) * count + i];
  }
  const double all = static_cast<double>(tokens > 0 ? tokens : 1);
  chosen[head] = times / all;
  if (mean != nullptr) mean[head] = total / all;
}

__global__ void BackwardKernel(Params p, const float* all_dgates, float balance,
                               const double* chosen, float* dlogits) {
  const int64_t token = Token();
  if (token >= p.tokens) return;
  const float* routes = p.routes + token * p.width;
  const float* gates = p.gates + token * p.heads;
  const float* dgates = all_dgates + token * p.heads;
  float* d = dlogits + token * p.width;
  float routed_scale = static_cast<float>(p.routed);
  if (p.shared > 0) {
    const float* kinds = routes + p.heads;
    float* dkinds = d + p.heads;
    routed_scale *= 2 * kinds[1];
    float by_kind[2] = {0, 0};
    for (int64_t h = Lane(); h < p.heads; h += cuda::kWarp) {
      const float term = dgates[h] * gates[h];
      if (h < p.shared) {
        by_kind[0] += term / kinds[0];
      } else {
        by_kind[1] += term / kinds[1];
      }
    }
    by_kind[0] = cuda::WarpSum(by_kind[0]);
    by_kind[1] = cuda::WarpSum(by_kind[1]);
    if (Lane() < 2) dkinds[Lane()] = Lane() == 0 ? by_kind[0] : by_kind[1];
    for (int64_t i = Lane(); i < p.shared; i += cuda::kWarp) {
      d[p.routed + i] = 2 * kinds[0] * static_cast<float>(p.shared) * dgates[i];
    }
    // Each lane reads what it wrote.
    SoftmaxBackward(routes + p.routed, p.shared, d + p.routed);
    SoftmaxBackward(kinds, 2, dkinds);
  }
  for (int64_t i = Lane(); i < p.routed; i += cuda::kWarp) {
    const bool is_chosen = gates[p.shared + i] > 0;
    d[i] = (is_chosen ? routed_scale * dgates[p.shared + i] : 0.0f) +
           balance * static_cast<float>(chosen[i]);
  }
  SoftmaxBackward(routes, p.routed, d);
}

Params ParamsOf(const RouteCall& call) {
  const RouteSizes sizes = SizesOf(call);
  Params p;
  p.tokens = sizes.tokens;
  p.heads = sizes.heads;
  p.routed = sizes.routed;
  p.width = sizes.width;
  p.shared = call.problem.shared;
  p.top = call.problem.active - call.problem.shared;
  p.routes = call.args.routes.Raw<float>();
  p.gates = call.args.gates.Raw<float>();
  return p;
}

dim3 BlocksOfTokens(const Params& p) {
  return dim3(cuda::CeilDiv(p.tokens, kWarps));
}

void Forward(Context& context, const RouteCall& call) {
  Params p = ParamsOf(call);
  const int64_t tokens_per_sum =
      std::max(kLeastTokensPerSum, cuda::CeilDiv(p.tokens, kMostSums));
  const int64_t count = cuda::CeilDiv(p.tokens, tokens_per_sum);
  Temp chosen, sums;
  if (count > 0) {
    chosen = Temp(context, DType::kU8, {p.tokens, p.routed});
    p.chosen = chosen.view().Raw<uint8_t>();
    cuda::Launch(context, "router", ChooseKernel, BlocksOfTokens(p), kThreads,
                 p);
    sums = Temp(context, DType::kF64, {2, p.routed, count});
    cuda::Launch(context, "router's shares", CountKernel, dim3(count, p.routed),
                 kThreads, p, tokens_per_sum, sums.view().Raw<double>());
  }
  cuda::Launch(context, "router's shares", AddCountsKernel,
               dim3(cuda::CeilDiv(p.routed, kThreads)), kThreads,
               sums.view().Raw<double>(), count, p.routed, p.tokens,
               call.args.chosen.Raw<double>(), call.args.mean.Raw<double>());
}

void Backward(Context& context, const RouteCall& call) {
  const Params p = ParamsOf(call);
  if (p.tokens == 0) return;
  cuda::Launch(context, "router backward", BackwardKernel, BlocksOfTokens(p),
               kThreads, p, call.grads->dgates.Raw<float>(),
               call.grads->balance / static_cast<float>(p.tokens),
               call.args.chosen.Raw<double>(),
               call.grads->dlogits.Raw<float>());
}

}  // namespace

void RunOnCuda(Context& context, const RouteCall& call) {
  call.grads == nullptr ? Forward(context, call) : Backward(context, call);
}

}  // namespace headwise
