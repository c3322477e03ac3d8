// cuda: lists are put in order tile by tile in shared memory; what is less and
// what is not more than a number is then found in every tile by halving. Sums
// are of whole halves, which no order changes. Door: ../implementation.h.
#include <algorithm>
#include <cfloat>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/rank_agreement/cuda/sorted_lists.cuh"
#include "headwise/ops/rank_agreement/implementation.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

using rank_cuda::BlockSum;
using rank_cuda::ForRanks;
using rank_cuda::List;
using rank_cuda::Lists;
using rank_cuda::WarpSum;
using rank_cuda::WithBlocks;

constexpr int kMostRankings = 4;

// ---- Cosines ----

constexpr int kCosineThreads = 256;
constexpr int kCosineWarps = kCosineThreads / cuda::kWarp;
constexpr int kAtOnce = 4;  // cosines of a warp

template <typename T>
struct CosineParams {
  const T* table;
  int64_t stride, width;
  const int32_t *ids, *others, *starts;
  float* cosines;
};

// grid: (R, any).
template <typename T>
__global__ __launch_bounds__(kCosineThreads) void CosineKernel(
    const CosineParams<T> p) {
  const int64_t r = blockIdx.x, begin = p.starts[r];
  const int64_t n = p.starts[r + 1] - begin;
  const T* row = p.table + p.ids[r] * p.stride;
  const int lane = threadIdx.x % cuda::kWarp;
  const int64_t warp =
      int64_t{blockIdx.y} * kCosineWarps + threadIdx.x / cuda::kWarp;
  const int64_t step = int64_t{gridDim.y} * kCosineWarps * kAtOnce;
  for (int64_t first = warp * kAtOnce; first < n; first += step) {
    const T* others[kAtOnce];
    double dots[kAtOnce] = {}, squares[kAtOnce] = {};
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
      others[e] = p.table + p.others[begin + min(first + e, n - 1)] * p.stride;
    }
#pragma unroll 2
    for (int64_t d = lane; d < p.width; d += cuda::kWarp) {
      const double own = cuda::ToFloat(row[d]);
#pragma unroll
      for (int e = 0; e < kAtOnce; ++e) {
        const double x = cuda::ToFloat(others[e][d]);
        dots[e] += own * x;
        squares[e] += x * x;
      }
    }
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
      const double dot = WarpSum(dots[e]), square = WarpSum(squares[e]);
      if (lane == 0 && first + e < n) {
        p.cosines[begin + first + e] =
            square == 0 ? 0 : static_cast<float>(dot / sqrt(square));
      }
    }
  }
}

// ---- Ranks of cosines ----

// parts: f64 [R, blocks of a list], Σ ranks².
template <int kThreads>
__global__ __launch_bounds__(kThreads) void CosineRanksKernel(const Lists lists,
                                                              float* ranks,
                                                              double* parts) {
  const List list(lists);
  double squares = 0;
  ForRanks<kThreads>(list, [&](uint32_t i, double rank) {
    ranks[list.begin + i] = static_cast<float>(rank);
    squares += rank * rank;
  });
  squares = BlockSum<kThreads>(squares);
  if (threadIdx.x == 0) {
    parts[int64_t{blockIdx.x} * gridDim.y + blockIdx.y] = squares;
  }
}

// A thread a list.
__global__ void CosineNormsKernel(int64_t lists, const double* parts,
                                  int64_t blocks, double* norms) {
  const int64_t r = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= lists) return;
  double squares = 0;
  for (int64_t n = 0; n < blocks; ++n) squares += parts[r * blocks + n];
  norms[r] = sqrt(squares);
}

// ---- Agreement ----

struct AgreementParams {
  int64_t lists, heads, entries, rows, rankings;
  const int32_t* row_list;
  const float *ranks, *entropy;
  const double* norms;
  double* agreement;
};

// Σ rank², and Σ rank · other of each ranking.
constexpr int kPartNumbers = 1 + kMostRankings;

// parts: f64 [R · H, blocks of a list, kPartNumbers].
template <int kThreads>
__global__ __launch_bounds__(kThreads) void AgreementKernel(
    const Lists lists, const AgreementParams p, double* parts) {
  const List list(lists);
  double squares = 0, dots[kMostRankings] = {};
  ForRanks<kThreads>(list, [&](uint32_t i, double rank) {
    squares += rank * rank;
#pragma unroll
    for (int k = 0; k < kMostRankings; ++k) {
      if (k < p.rankings) {
        dots[k] += rank * p.ranks[k * p.entries + list.begin + i];
      }
    }
  });
  double* to =
      parts + (int64_t{blockIdx.x} * gridDim.y + blockIdx.y) * kPartNumbers;
  squares = BlockSum<kThreads>(squares);
  if (threadIdx.x == 0) to[0] = squares;
#pragma unroll
  for (int k = 0; k < kMostRankings; ++k) {
    if (k >= p.rankings) break;
    const double dot = BlockSum<kThreads>(dots[k]);
    if (threadIdx.x == 0) to[1 + k] = dot;
  }
}

// A thread a list, head and ranking.
__global__ void CorrelationKernel(const AgreementParams p, const double* parts,
                                  int64_t blocks) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= p.lists * p.heads * p.rankings) return;
  const int64_t k = at % p.rankings, row = at / p.rankings;
  const int64_t r = row / p.heads, h = row % p.heads;
  const float entropy = p.entropy[h * p.rows + p.row_list[r]];
  if (!(fabsf(entropy) <= FLT_MAX)) {
    p.agreement[at] = nan("");
    return;
  }
  double squares = 0, dot = 0;
  for (int64_t n = 0; n < blocks; ++n) {
    const double* from = parts + (row * blocks + n) * kPartNumbers;
    squares += from[0];
    dot += from[1 + k];
  }
  const double norm = sqrt(squares), other = p.norms[k * p.lists + r];
  p.agreement[at] = norm == 0 || other == 0 ? 0 : dot / (norm * other);
}

// ---- Calls ----

Reason WhyNot(const RanksCall& call) {
  if (!call.device().is_cuda()) return "runs on CUDA only";
  return call.agreement == nullptr ||
                 call.agreement->ranks.shape[0] <= kMostRankings
             ? ""
             : "at most 4 rankings to compare with";
}

unsigned BlocksFor(int64_t threads) {
  return static_cast<unsigned>(cuda::CeilDiv(threads, cuda::kWarp));
}

void RunCosines(Context& context, const CosineRanksArgs& a) {
  const int64_t count = a.ids.shape[0], entries = a.others.shape[0];
  const int64_t most = std::max<int64_t>(1, entries);
  const Temp cosines(context, DType::kF32, {most});
  const Temp sorted(context, DType::kI64, {most});
  constexpr int64_t kRounds = 2;  // of a block's warps, about
  const int64_t shares = std::clamp<int64_t>(
      cuda::CeilDiv(entries, count * kCosineWarps * kAtOnce * kRounds), 1,
      65535);
  cuda::WithFloatType(a.table.type, [&](auto type) {
    using T = decltype(type);
    const CosineParams<T> params = {
        a.table.Raw<T>(),           a.table.stride[0],
        a.table.shape[1],           a.ids.Raw<int32_t>(),
        a.others.Raw<int32_t>(),    a.starts.Raw<int32_t>(),
        cosines.view().Raw<float>()};
    cuda::Launch(
        context, "cosine ranks", CosineKernel<T>,
        dim3(static_cast<unsigned>(count), static_cast<unsigned>(shares)),
        kCosineThreads, params);
  });
  const Lists lists = {a.starts.Raw<int32_t>(),
                       entries,
                       1,
                       cosines.view().Raw<float>(),
                       nullptr,
                       0,
                       reinterpret_cast<RankEntry*>(sorted.view().data)};
  // How long the longest is, is not known here.
  WithBlocks(std::min(entries, 2 * cuda::CeilDiv(entries, count)),
             [&](auto threads, int blocks) {
               constexpr int kThreads = decltype(threads)::value;
               const dim3 grid(static_cast<unsigned>(count),
                               static_cast<unsigned>(blocks));
               const Temp parts(context, DType::kF64, {count, blocks});
               rank_cuda::Sort<kThreads>(context, lists, grid);
               cuda::Launch(context, "cosine ranks",
                            CosineRanksKernel<kThreads>, grid, kThreads, lists,
                            a.ranks.Raw<float>(), parts.view().Raw<double>());
               cuda::Launch(context, "cosine ranks", CosineNormsKernel,
                            dim3(BlocksFor(count)), cuda::kWarp, count,
                            parts.view().Raw<double>(), blocks,
                            a.norms.Raw<double>());
             });
}

void RunAgreement(Context& context, const RankAgreementArgs& a) {
  const int64_t count = a.shares.shape[0], heads = a.shares.shape[1];
  const int64_t entries = a.keys.shape[0], width = a.shares.shape[2];
  const int64_t rankings = a.ranks.shape[0];
  const Temp sorted(context, DType::kI64,
                    {heads, std::max<int64_t>(1, entries)});
  const Lists lists = {a.starts.Raw<int32_t>(),
                       entries,
                       heads,
                       a.shares.Raw<float>(),
                       a.keys.Raw<int32_t>(),
                       width,
                       reinterpret_cast<RankEntry*>(sorted.view().data)};
  const AgreementParams params = {count,
                                  heads,
                                  entries,
                                  a.entropy.shape[2],
                                  rankings,
                                  a.rows.Raw<int32_t>(),
                                  a.ranks.Raw<float>(),
                                  a.entropy.Raw<float>(),
                                  a.norms.Raw<double>(),
                                  a.agreement.Raw<double>()};
  WithBlocks(std::min(entries, width), [&](auto threads, int blocks) {
    constexpr int kThreads = decltype(threads)::value;
    const dim3 grid(static_cast<unsigned>(count * heads),
                    static_cast<unsigned>(blocks));
    const Temp parts(context, DType::kF64,
                     {count * heads, blocks, kPartNumbers});
    rank_cuda::Sort<kThreads>(context, lists, grid);
    cuda::Launch(context, "rank agreement", AgreementKernel<kThreads>, grid,
                 kThreads, lists, params, parts.view().Raw<double>());
    cuda::Launch(context, "rank agreement", CorrelationKernel,
                 dim3(BlocksFor(count * heads * rankings)), cuda::kWarp, params,
                 parts.view().Raw<double>(), blocks);
  });
}

void Run(Context& context, const RanksCall& call) {
  if (call.cosines != nullptr) return RunCosines(context, *call.cosines);
  RunAgreement(context, *call.agreement);
}

}  // namespace

const Implementation<RanksCall> kRanksCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
