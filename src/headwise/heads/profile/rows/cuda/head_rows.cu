// cuda: a block a head and stretch of a sequence, whose rows it loads once. A
// warp adds up a few slots in f64, a lane a row; the lanes' sums, then the
// stretches' and the sequences', are added in one order. Door:
// ../implementation.h.
#include "headwise/heads/profile/rows/call_rows.h"
#include "headwise/heads/profile/rows/cuda/staged_rows.cuh"
#include "headwise/heads/profile/rows/implementation.h"
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

using head_rows_cuda::FirstStretch;
using head_rows_cuda::StagedRows;
using head_rows_cuda::Stretch;
using head_rows_cuda::StretchesOf;

// What the warps of a block do, in this order: groups of slots, offsets of the
// band, the best rows.
constexpr int kGroup = 8;
constexpr int kGroups = (kSlotOffsets + kGroup - 1) / kGroup;
constexpr int kOffsetsEach = 2;
constexpr int kMostOffsetWarps = 5;
constexpr int kMostWarps = kGroups + kMostOffsetWarps + 1;

HEADWISE_ROW_HD int OffsetWarps(const RowResults& from) {
  if (from.cross) return 0;
  const int width = from.before + from.after + 1;
  const int wanted = (width + kOffsetsEach - 1) / kOffsetsEach;
  return wanted < kMostOffsetWarps ? wanted : kMostOffsetWarps;
}

// Sums that a lane holds.
constexpr int kSums = 16;
constexpr int kOffsetSums = 8;  // numbers of OffsetSums
static_assert(2 * kGroup == kSums && kOffsetsEach * kOffsetSums == kSums);

__device__ double WarpSum(double x) {
  for (int step = cuda::kWarp / 2; step > 0; step /= 2) {
    x += __shfl_xor_sync(0xffffffff, x, step);
  }
  return x;
}

// Lanes give kHalf of their 2 · kHalf numbers away for the like of another's.
template <int kHalf>
__device__ __forceinline__ void HalveSums(double (&x)[kSums]) {
  const bool upper = (threadIdx.x & (2 * kHalf)) != 0;
#pragma unroll
  for (int n = 0; n < kHalf; ++n) {
    const double given = upper ? x[n] : x[n + kHalf];
    const double kept = upper ? x[n + kHalf] : x[n];
    x[n] = kept + __shfl_xor_sync(0xffffffff, given, 2 * kHalf);
  }
}

// Each of the sums over a warp: lane l has that of number l / 2.
__device__ __forceinline__ double SumsOverWarp(double (&x)[kSums]) {
  static_assert(kSums == 16);
  HalveSums<8>(x);
  HalveSums<4>(x);
  HalveSums<2>(x);
  HalveSums<1>(x);
  return x[0] + __shfl_xor_sync(0xffffffff, x[0], 1);
}

// Sums of slots [kFirst, kFirst + kGroup), x and w; what others are offered is
// never calculated, since every slot is known to the compiler.
template <int kFirst>
struct GroupSums {
  double x[kGroup] = {}, w[kGroup] = {};
  int rows[kGroup] = {};  // of weight 1

  __device__ __forceinline__ void Add(int slot, double value, double weight) {
    if (slot < kFirst || slot >= kFirst + kGroup) return;
    x[slot - kFirst] += value;
    w[slot - kFirst] += weight;
  }
  __device__ __forceinline__ void Add(int slot, double value, int one) {
    if (slot < kFirst || slot >= kFirst + kGroup) return;
    x[slot - kFirst] += value;
    rows[slot - kFirst] += one;
  }
};

template <int kFirst, bool kSinks>
__device__ __forceinline__ void AddGroup(const Stretch<kSinks>& stretch,
                                         bool cross, double* to) {
  GroupSums<kFirst> sums;
  const RowAdder<GroupSums<kFirst>> adder{sums};
  stretch.ForRows([&](const HeadRow& row) {
    adder.AddAll(row);
    if (!cross) adder.AddNear(row, NearKeys{row});
  });
  double numbers[kSums];
#pragma unroll
  for (int c = 0; c < kGroup; ++c) {
    numbers[2 * c] = sums.x[c];
    numbers[2 * c + 1] = sums.w[c] + sums.rows[c];
  }
  const double sum = SumsOverWarp(numbers);
  const int lane = threadIdx.x % cuda::kWarp;
  const int column = 2 * kFirst + lane / 2;
  if (lane % 2 == 0 && column < 2 * kSlotOffsets) to[column] = sum;
}

// The group of a warp, among those from slot kFirst on.
template <int kFirst, bool kSinks>
__device__ __forceinline__ void AddGroupOf(int warp,
                                           const Stretch<kSinks>& stretch,
                                           bool cross, double* to) {
  if constexpr (kFirst < kSlotOffsets) {
    if (warp == kFirst / kGroup) return AddGroup<kFirst>(stretch, cross, to);
    AddGroupOf<kFirst + kGroup>(warp, stretch, cross, to);
  }
}

// Offsets [first, first + kOffsetsEach), as far as the band reaches.
template <bool kSinks>
__device__ __forceinline__ void AddOffsets(const Stretch<kSinks>& stretch,
                                           int first, int after,
                                           double (&memory)[kSums],
                                           double* to) {
  OffsetSums offsets[kOffsetsEach] = {};
  stretch.ForRows([&](const HeadRow& row) {
#pragma unroll
    for (int n = 0; n < kOffsetsEach; ++n) {
      if (first + n <= after) offsets[n].Add(row, first + n);
    }
  });
  double numbers[kSums];
#pragma unroll
  for (int n = 0; n < kOffsetsEach; ++n) {
    const OffsetSums& from = offsets[n];
    numbers[n * kOffsetSums] = from.rows;
    numbers[n * kOffsetSums + 1] = from.argmax;
    numbers[n * kOffsetSums + 2] = from.mass;
    numbers[n * kOffsetSums + 3] = from.chance;
    numbers[n * kOffsetSums + 4] = from.weight;
    numbers[n * kOffsetSums + 5] = from.content;
    numbers[n * kOffsetSums + 6] = from.content_chance;
    numbers[n * kOffsetSums + 7] = from.content_argmax;
  }
  const double sum = SumsOverWarp(numbers);
  const int lane = threadIdx.x % cuda::kWarp;
  __syncwarp();  // the memory may still be read
  if (lane % 2 == 0) memory[lane / 2] = sum;
  __syncwarp();
  if (lane >= kOffsetsEach || first + lane > after) return;
  const double* own = memory + lane * kOffsetSums;
  StoreOffset({static_cast<int32_t>(own[0]), static_cast<int32_t>(own[1]),
               own[2], own[3], own[4], own[5], own[6], own[7]},
              first + lane, to);
}

// The larger score; of equal ones the earlier row.
__device__ void Offer(float score, int row, float& best, int& best_row) {
  if (!(score > best) && !(score == best && row >= 0 && row < best_row)) return;
  best = score;
  best_row = row;
}

// The best of a warp, in every lane.
__device__ void OfferOverWarp(float& score, int& row) {
  for (int step = cuda::kWarp / 2; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffff, score, step);
    const int other_row = __shfl_xor_sync(0xffffffff, row, step);
    Offer(other, other_row, score, row);
  }
}

template <bool kSinks>
__device__ __forceinline__ void FindBest(const Stretch<kSinks>& stretch,
                                         float* scores, int32_t* places) {
  float score[kBestRows] = {};
  int place[kBestRows];
#pragma unroll
  for (int kind = 0; kind < kBestRows; ++kind) place[kind] = -1;
  stretch.ForRows([&](const HeadRow& row) {
#pragma unroll
    for (int kind = 0; kind < kBestRows; ++kind) {
      Offer(BestScore(row, kind), static_cast<int>(row.i), score[kind],
            place[kind]);
    }
  });
#pragma unroll
  for (int kind = 0; kind < kBestRows; ++kind) {
    OfferOverWarp(score[kind], place[kind]);
    if (threadIdx.x % cuda::kWarp != 0) continue;
    scores[kind] = score[kind];
    places[kind] = place[kind];
  }
}

// Of each stretch and head; what has no rows is left as it was.
struct Parts {
  double* sums;   // [stretches, H, kHeadSlots, 2]
  float* scores;  // [stretches, H, kBestRows]; may be null
  int32_t* places;
};

// grid: (stretches, H).
template <bool kSinks>
__global__ __launch_bounds__(kMostWarps* cuda::kWarp, 2) void SumsKernel(
    const __grid_constant__ CallRows rows, const Parts parts) {
  extern __shared__ __align__(16) char memory[];
  __shared__ double offsets[kMostOffsetWarps][kSums];
  const Stretch<kSinks> stretch(rows, blockIdx.x, blockIdx.y,
                                *reinterpret_cast<StagedRows*>(memory));
  if (stretch.empty()) return;
  const int64_t at = int64_t{blockIdx.x} * gridDim.y + blockIdx.y;
  double* to = parts.sums + at * 2 * kHeadSlots;
  const bool cross = rows.results.cross;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarp;
  if (warp < kGroups) return AddGroupOf<0>(warp, stretch, cross, to);
  const int after = rows.results.after,
            offset_warps = OffsetWarps(rows.results);
  if (warp == kGroups + offset_warps) {
    return FindBest(stretch, parts.scores + at * kBestRows,
                    parts.places + at * kBestRows);
  }
  for (int k = -rows.results.before + (warp - kGroups) * kOffsetsEach;
       k <= after; k += offset_warps * kOffsetsEach) {
    AddOffsets(stretch, k, after, offsets[warp - kGroups], to);
  }
}

// Whether the band has the offset of a slot; of others there are no sums.
__device__ bool HasOffset(const RowResults& from, int slot) {
  if (slot < kSlotOffsets) return true;
  const int k = (slot - kSlotOffsets) % kOffsetWidth - kFarthestOffset;
  return !from.cross && k >= -from.before && k <= from.after;
}

// A warp a head and slot, then one a head and bucket; `side` lanes a sequence,
// a power of two, each with every so many of its stretches.
__global__ void TalliesKernel(const __grid_constant__ CallRows rows,
                              const double* sums, const double* histogram,
                              int64_t buckets, int side, double* tallies,
                              double* histogram_sums) {
  const int64_t heads = rows.results.heads;
  const int lane = threadIdx.x % cuda::kWarp;
  int64_t n = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / cuda::kWarp;
  if (n < heads * kHeadSlots) {
    const auto* from = reinterpret_cast<const double2*>(sums) + n;
    const bool has = HasOffset(rows.results, static_cast<int>(n % kHeadSlots));
    double tally[kTallyNumbers] = {};
    for (int64_t base = 0; has && base < rows.sequences;
         base += cuda::kWarp / side) {
      const int64_t b = base + lane / side;
      double x = 0, w = 0;
      if (b < rows.sequences) {
        const int64_t first = FirstStretch(rows.query_starts, b);
        const int64_t end = first + StretchesOf(rows.query_starts, b);
#pragma unroll 4
        for (int64_t s = first + lane % side; s < end; s += side) {
          const double2 part = from[s * heads * kHeadSlots];
          x += part.x;
          w += part.y;
        }
      }
      for (int step = side / 2; step > 0; step /= 2) {
        x += __shfl_xor_sync(0xffffffff, x, step);
        w += __shfl_xor_sync(0xffffffff, w, step);
      }
      if (lane % side == 0) AddToTally(x, w, tally);
    }
#pragma unroll
    for (int c = 0; c < kTallyNumbers; ++c) {
      const double sum = WarpSum(tally[c]);
      if (lane == 0) tallies[n * kTallyNumbers + c] = sum;
    }
    return;
  }
  n -= heads * kHeadSlots;
  if (n >= heads * buckets) return;
  double sum = 0;
  for (int64_t b = lane; b < rows.sequences; b += cuda::kWarp) {
    sum += histogram[b * heads * buckets + n];
  }
  sum = WarpSum(sum);
  if (lane == 0) histogram_sums[n] = sum;
}

// A warp a sequence, head and kind; a lane every so many stretches.
__global__ void BestKernel(const int32_t* query_starts, int64_t sequences,
                           int64_t heads, const Parts parts, float* scores,
                           int32_t* places) {
  const int64_t at =
      (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / cuda::kWarp;
  if (at >= sequences * heads * kBestRows) return;
  const int64_t width = heads * kBestRows, b = at / width;
  const int64_t first = FirstStretch(query_starts, b);
  const int64_t end = first + StretchesOf(query_starts, b);
  const int lane = threadIdx.x % cuda::kWarp;
  float score = 0;
  int place = -1;
  for (int64_t s = first + lane; s < end; s += cuda::kWarp) {
    const int64_t from = s * width + at % width;
    Offer(parts.scores[from], parts.places[from], score, place);
  }
  OfferOverWarp(score, place);
  if (lane != 0) return;
  scores[at] = score;
  places[at] = place;
}

Reason WhyNot(const HeadRowsCall& call) {
  if (!call.args.entropy.device.is_cuda()) return "runs on CUDA only";
  return call.problem.adds ? "overwrites tallies" : "";
}

void RunSums(Context& context, const CallRows& rows, int64_t stretches,
             const Parts& parts) {
  const char* where = "head rows";
  const int warps =
      kGroups + OffsetWarps(rows.results) + (parts.scores == nullptr ? 0 : 1);
  const auto kernel =
      rows.sink_starts == nullptr ? SumsKernel<false> : SumsKernel<true>;
  CheckCuda(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(sizeof(StagedRows))),
      where);
  kernel<<<dim3(static_cast<unsigned>(stretches),
                static_cast<unsigned>(rows.results.heads)),
           static_cast<unsigned>(warps * cuda::kWarp), sizeof(StagedRows),
           StreamOf(context)>>>(rows, parts);
  CheckCuda(cudaGetLastError(), where);
}

void Run(Context& context, const HeadRowsCall& call) {
  constexpr int kThreads = 128;
  const HeadRowsArgs& a = call.args;
  const CallRows rows = CallRowsOf(call);
  const int64_t heads = rows.results.heads, sequences = rows.sequences;
  const int64_t stretches =
      head_rows_cuda::MostStretches(rows.results.rows, sequences);
  const auto blocks = [](int64_t threads) {
    return dim3(static_cast<unsigned>(cuda::CeilDiv(threads, kThreads)));
  };
  const int64_t most = std::max<int64_t>(1, stretches);
  const Temp sums(context, DType::kF64, {most, heads, kHeadSlots, 2});
  Parts parts = {sums.view().Raw<double>(), nullptr, nullptr};
  Temp scores, places;
  if (a.best_rows) {
    scores = Temp(context, DType::kF32, {most, heads, kBestRows});
    places = Temp(context, DType::kI32, {most, heads, kBestRows});
    parts.scores = scores.view().Raw<float>();
    parts.places = places.view().Raw<int32_t>();
  }
  if (stretches > 0) RunSums(context, rows, stretches, parts);
  int side = cuda::kWarp;
  while (side > 1 && side * sequences > cuda::kWarp) side /= 2;
  const int64_t buckets = a.histogram ? a.histogram.shape[2] : 0;
  cuda::Launch(context, "head tallies", TalliesKernel,
               blocks(heads * (kHeadSlots + buckets) * cuda::kWarp), kThreads,
               rows, parts.sums, a.histogram.Raw<double>(), buckets, side,
               a.tallies.Raw<double>(), a.histogram_sums.Raw<double>());
  if (!a.best_rows || a.best_rows.size() == 0) return;
  cuda::Launch(context, "head rows", BestKernel,
               blocks(sequences * heads * kBestRows * cuda::kWarp), kThreads,
               rows.query_starts, sequences, heads, parts,
               a.best_scores.Raw<float>(), a.best_rows.Raw<int32_t>());
}

}  // namespace

const Implementation<HeadRowsCall> kHeadRowsCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
