// cuda: a block a list. A rank is how many are smaller, counted: lists are a
// few thousand long and lie in shared memory. Door: ../implementation.h.
#include <cfloat>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/rank_agreement/implementation.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / cuda::kWarp;
constexpr int kEach = 2;     // ranks that a thread counts at once
constexpr int kTile = 2048;  // numbers in shared memory
constexpr int kMostRankings = 4;

__device__ double WarpSum(double x) {
  for (int step = cuda::kWarp / 2; step > 0; step /= 2) {
    x += __shfl_xor_sync(0xffffffff, x, step);
  }
  return x;
}

// Over the block; in thread 0.
__device__ double BlockSum(double x) {
  __shared__ double sums[kWarps];
  x = WarpSum(x);
  __syncthreads();  // a sum before this one may still be read
  if (threadIdx.x % cuda::kWarp == 0) sums[threadIdx.x / cuda::kWarp] = x;
  __syncthreads();
  double sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) sum += sums[warp];
  return sum;
}

// use(i, rank) for the n numbers get(i), each in one thread.
template <typename Get, typename Use>
__device__ void RankList(int n, const Get& get, const Use& use) {
  __shared__ float tile[kTile];
  for (int base = 0; base < n; base += kThreads * kEach) {
    float own[kEach];
    int less[kEach] = {}, not_more[kEach] = {};
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = base + e * kThreads + static_cast<int>(threadIdx.x);
      own[e] = i < n ? get(i) : 0;
    }
    for (int from = 0; from < n; from += kTile) {
      const int count = min(kTile, n - from);
      __syncthreads();  // the tile before may still be read
      for (int j = static_cast<int>(threadIdx.x); j < count; j += kThreads) {
        tile[j] = get(from + j);
      }
      __syncthreads();
#pragma unroll 8
      for (int j = 0; j < count; ++j) {
        const float other = tile[j];
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          less[e] += other < own[e] ? 1 : 0;
          not_more[e] += other <= own[e] ? 1 : 0;
        }
      }
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = base + e * kThreads + static_cast<int>(threadIdx.x);
      if (i < n) use(i, 0.5 * (less[e] + not_more[e] - n));
    }
  }
}

template <typename T>
struct CosineParams {
  const T* table;
  int64_t stride, width;
  const int32_t *ids, *others, *starts;
  float *cosines, *ranks;
  double* norms;
};

// grid: (R).
template <typename T>
__global__ __launch_bounds__(kThreads) void CosineKernel(
    const CosineParams<T> p) {
  const int64_t r = blockIdx.x;
  const int64_t begin = p.starts[r];
  const int n = static_cast<int>(p.starts[r + 1] - begin);
  const T* row = p.table + p.ids[r] * p.stride;
  const int lane = threadIdx.x % cuda::kWarp;
  float* cosines = p.cosines + begin;
  for (int i = static_cast<int>(threadIdx.x) / cuda::kWarp; i < n;
       i += kWarps) {
    const T* other = p.table + p.others[begin + i] * p.stride;
    double dot = 0, square = 0;
    for (int64_t d = lane; d < p.width; d += cuda::kWarp) {
      const double x = cuda::ToFloat(other[d]);
      dot += static_cast<double>(cuda::ToFloat(row[d])) * x;
      square += x * x;
    }
    dot = WarpSum(dot);
    square = WarpSum(square);
    if (lane == 0) {
      cosines[i] = square == 0 ? 0 : static_cast<float>(dot / sqrt(square));
    }
  }
  __syncthreads();
  double squares = 0;
  RankList(
      n, [&](int i) { return cosines[i]; },
      [&](int i, double rank) {
        p.ranks[begin + i] = static_cast<float>(rank);
        squares += rank * rank;
      });
  squares = BlockSum(squares);
  if (threadIdx.x == 0) p.norms[r] = sqrt(squares);
}

struct AgreementParams {
  const float* shares;
  int64_t heads, keys, lists, entries, rows, rankings;
  const int32_t *key_list, *starts, *row_list;
  const float *ranks, *entropy;
  const double* norms;
  double* agreement;
};

// grid: (H, R).
__global__ __launch_bounds__(kThreads) void AgreementKernel(
    const AgreementParams p) {
  const int64_t h = blockIdx.x, r = blockIdx.y;
  double* to = p.agreement + (r * p.heads + h) * p.rankings;
  const float entropy = p.entropy[h * p.rows + p.row_list[r]];
  if (!(fabsf(entropy) <= FLT_MAX)) {
    if (threadIdx.x < p.rankings) to[threadIdx.x] = nan("");
    return;
  }
  const int64_t begin = p.starts[r];
  const int n = static_cast<int>(p.starts[r + 1] - begin);
  const float* shares = p.shares + (r * p.heads + h) * p.keys;
  const int32_t* keys = p.key_list + begin;
  double squares = 0, dots[kMostRankings] = {};
  RankList(
      n, [&](int i) { return fmaxf(shares[keys[i]], FLT_MIN); },
      [&](int i, double rank) {
        squares += rank * rank;
#pragma unroll
        for (int k = 0; k < kMostRankings; ++k) {
          if (k < p.rankings) {
            dots[k] += rank * p.ranks[k * p.entries + begin + i];
          }
        }
      });
  const double norm = sqrt(BlockSum(squares));
#pragma unroll
  for (int k = 0; k < kMostRankings; ++k) {
    if (k >= p.rankings) break;
    const double dot = BlockSum(dots[k]);
    const double other = p.norms[k * p.lists + r];
    if (threadIdx.x == 0) {
      to[k] = norm == 0 || other == 0 ? 0 : dot / (norm * other);
    }
  }
}

// A grid has at most 65535 blocks in its second direction.
Reason WhyNot(const RanksCall& call) {
  if (!call.device().is_cuda()) return "runs on CUDA only";
  if (call.agreement == nullptr) return "";
  if (call.agreement->shares.shape[0] > 65535) return "at most 65535 lists";
  return call.agreement->ranks.shape[0] <= kMostRankings
             ? ""
             : "at most 4 rankings to compare with";
}

void RunCosines(Context& context, const CosineRanksArgs& a) {
  const Temp cosines(context, DType::kF32,
                     {std::max<int64_t>(1, a.others.shape[0])});
  cuda::WithFloatType(a.table.type, [&](auto type) {
    using T = decltype(type);
    const CosineParams<T> params = {a.table.Raw<T>(),
                                    a.table.stride[0],
                                    a.table.shape[1],
                                    a.ids.Raw<int32_t>(),
                                    a.others.Raw<int32_t>(),
                                    a.starts.Raw<int32_t>(),
                                    cosines.view().Raw<float>(),
                                    a.ranks.Raw<float>(),
                                    a.norms.Raw<double>()};
    cuda::Launch(context, "cosine ranks", CosineKernel<T>,
                 dim3(static_cast<unsigned>(a.ids.shape[0])), kThreads, params);
  });
}

void Run(Context& context, const RanksCall& call) {
  if (call.cosines != nullptr) {
    RunCosines(context, *call.cosines);
    return;
  }
  const RankAgreementArgs& a = *call.agreement;
  const AgreementParams params = {
      a.shares.Raw<float>(), a.shares.shape[1],        a.shares.shape[2],
      a.shares.shape[0],     a.keys.shape[0],          a.entropy.shape[2],
      a.ranks.shape[0],      a.keys.Raw<int32_t>(),    a.starts.Raw<int32_t>(),
      a.rows.Raw<int32_t>(), a.ranks.Raw<float>(),     a.entropy.Raw<float>(),
      a.norms.Raw<double>(), a.agreement.Raw<double>()};
  cuda::Launch(context, "rank agreement", AgreementKernel,
               dim3(static_cast<unsigned>(params.heads),
                    static_cast<unsigned>(params.lists)),
               kThreads, params);
}

}  // namespace

const Implementation<RanksCall> kRanksCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
