// cuda: a block a head, sequence and group of slots. Each thread adds up its
// rows in f64; the threads' sums are added in one order, then the sequences'.
// Door: ../implementation.h.
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/head_rows/call_rows.h"
#include "headwise/ops/head_rows/implementation.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / cuda::kWarp;
// Slots whose sums a thread holds at once; offsets have threads of their own.
constexpr int kGroup = 16;
constexpr int kGroups = (kSlotOffsets + kGroup - 1) / kGroup;
enum Part : int { kPartOffsets = kGroups, kPartBest, kParts };

// Sums of slots [kFirst, kFirst + kGroup); what others are offered is never
// calculated, since every slot is known to the compiler.
template <int kFirst>
struct GroupSums {
  double x[kGroup] = {}, w[kGroup] = {};

  __device__ __forceinline__ void Add(int slot, double value, double weight) {
    if (slot < kFirst || slot >= kFirst + kGroup) return;
    x[slot - kFirst] += value;
    w[slot - kFirst] += weight;
  }
};

__device__ double WarpSum(double x) {
  for (int step = cuda::kWarp / 2; step > 0; step /= 2) {
    x += __shfl_xor_sync(0xffffffff, x, step);
  }
  return x;
}

// Row by row what this block's threads share out.
struct Block {
  const CallRows& rows;
  HeadRow row;
  int64_t begin, end;

  template <typename Use>
  __device__ __forceinline__ void ForRows(int64_t first, int64_t step,
                                          const Use& use) {
    for (int64_t t = begin + first; t < end; t += step) {
      if (rows.Take(t, begin, row)) use(row);
    }
  }
};

template <int kFirst>
__device__ __forceinline__ void AddGroup(Block& block, double* to) {
  __shared__ double parts[kWarps][2 * kGroup];
  GroupSums<kFirst> sums;
  const RowAdder<GroupSums<kFirst>> adder{sums};
  const bool cross = block.rows.results.cross;
  block.ForRows(threadIdx.x, kThreads, [&](HeadRow& row) {
    PrepareRow(row);
    adder.AddAll(row);
    if (!cross) adder.AddLocal(row);
  });
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
#pragma unroll
  for (int c = 0; c < kGroup; ++c) {
    const double x = WarpSum(sums.x[c]), w = WarpSum(sums.w[c]);
    if (lane == 0) {
      parts[warp][2 * c] = x;
      parts[warp][2 * c + 1] = w;
    }
  }
  __syncthreads();
  const int column = 2 * kFirst + static_cast<int>(threadIdx.x);
  if (threadIdx.x >= 2 * kGroup || column >= 2 * kSlotOffsets) return;
  double sum = 0;
  for (int part = 0; part < kWarps; ++part) sum += parts[part][threadIdx.x];
  to[column] = sum;
}

// A thread an offset and every so many rows.
__device__ void AddOffsets(Block& block, double* to) {
  __shared__ OffsetSums parts[kThreads];
  const RowResults& from = block.rows.results;
  const int width = from.before + from.after + 1;
  const int side = kThreads / width;  // rows at once
  const int c = static_cast<int>(threadIdx.x) % width;
  const int first = static_cast<int>(threadIdx.x) / width;
  OffsetSums sums = {};
  if (first < side) {
    block.ForRows(first, side, [&](HeadRow& row) {
      PrepareRow(row);
      sums.Add(row, c - from.before);
    });
  }
  parts[threadIdx.x] = sums;
  __syncthreads();
  if (static_cast<int>(threadIdx.x) >= width) return;
  for (int part = 1; part < side; ++part) {
    const OffsetSums& other = parts[part * width + c];
    sums.rows += other.rows;
    sums.mass += other.mass;
    sums.chance += other.chance;
    sums.argmax += other.argmax;
    sums.weight += other.weight;
    sums.content += other.content;
    sums.content_chance += other.content_chance;
    sums.content_argmax += other.content_argmax;
  }
  StoreOffset(sums, c - from.before, to);
}

// The larger score; of equal ones the earlier row.
__device__ void Offer(float score, int row, float& best, int& best_row) {
  if (!(score > best) && !(score == best && row >= 0 && row < best_row)) return;
  best = score;
  best_row = row;
}

__device__ void FindBest(Block& block, float* scores, int32_t* places) {
  __shared__ float warp_scores[kBestRows][kWarps];
  __shared__ int warp_rows[kBestRows][kWarps];
  float score[kBestRows] = {};
  int place[kBestRows];
#pragma unroll
  for (int kind = 0; kind < kBestRows; ++kind) place[kind] = -1;
  block.ForRows(threadIdx.x, kThreads, [&](const HeadRow& row) {
#pragma unroll
    for (int kind = 0; kind < kBestRows; ++kind) {
      Offer(BestScore(row, kind), static_cast<int>(row.i), score[kind],
            place[kind]);
    }
  });
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
#pragma unroll
  for (int kind = 0; kind < kBestRows; ++kind) {
    for (int step = cuda::kWarp / 2; step > 0; step /= 2) {
      Offer(__shfl_xor_sync(0xffffffff, score[kind], step),
            __shfl_xor_sync(0xffffffff, place[kind], step), score[kind],
            place[kind]);
    }
    if (lane == 0) {
      warp_scores[kind][warp] = score[kind];
      warp_rows[kind][warp] = place[kind];
    }
  }
  __syncthreads();
  if (threadIdx.x >= kBestRows) return;
  float best = 0;
  int best_row = -1;
  for (int part = 0; part < kWarps; ++part) {
    Offer(warp_scores[threadIdx.x][part], warp_rows[threadIdx.x][part], best,
          best_row);
  }
  scores[threadIdx.x] = best;
  places[threadIdx.x] = best_row;
}

// grid: (H, B, kParts). sums [B, H, kHeadSlots, 2], zeros before.
__global__ __launch_bounds__(kThreads, 4) void SumsKernel(
    const __grid_constant__ CallRows rows, double* sums, float* best_scores,
    int32_t* best_rows) {
  __shared__ OwnSink own[kMostOwnSinks];
  const int64_t h = blockIdx.x, b = blockIdx.y;
  const int own_count = rows.OwnCount(b, h);
  for (int n = static_cast<int>(threadIdx.x); n < own_count; n += kThreads) {
    own[n] = rows.Own(b, h, n);
  }
  __syncthreads();
  Block block{rows, {}, rows.query_starts[b], rows.query_starts[b + 1]};
  block.row.from = &rows.results;
  block.row.keys = rows.KeysOf(b);
  block.row.own = own;
  block.row.own_count = own_count;
  block.row.h = h;
  const int64_t at = b * rows.results.heads + h;
  double* to = sums + at * 2 * kHeadSlots;
  static_assert(kGroups == 4);
  switch (blockIdx.z) {
    case 0:
      return AddGroup<0>(block, to);
    case 1:
      return AddGroup<kGroup>(block, to);
    case 2:
      return AddGroup<2 * kGroup>(block, to);
    case 3:
      return AddGroup<3 * kGroup>(block, to);
    case kPartOffsets:
      if (!rows.results.cross) AddOffsets(block, to);
      return;
    default:
      if (best_rows == nullptr) return;
      FindBest(block, best_scores + at * kBestRows, best_rows + at * kBestRows);
  }
}

// A thread a head and slot, and then one a head and bucket.
__global__ void TalliesKernel(const double* sums, const double* histogram,
                              int64_t sequences, int64_t heads, int64_t buckets,
                              double* tallies, double* histogram_sums) {
  int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n < heads * kHeadSlots) {
    double tally[kTallyNumbers] = {};
    for (int64_t b = 0; b < sequences; ++b) {
      const double* from = sums + 2 * (b * heads * kHeadSlots + n);
      AddToTally(from[0], from[1], tally);
    }
    for (int c = 0; c < kTallyNumbers; ++c) {
      tallies[n * kTallyNumbers + c] = tally[c];
    }
    return;
  }
  n -= heads * kHeadSlots;
  if (n >= heads * buckets) return;
  double sum = 0;
  for (int64_t b = 0; b < sequences; ++b) {
    sum += histogram[b * heads * buckets + n];
  }
  histogram_sums[n] = sum;
}

// A grid has at most 65535 blocks in its second direction.
Reason WhyNot(const HeadRowsCall& call) {
  if (!call.args.entropy.device.is_cuda()) return "runs on CUDA only";
  return call.args.query_starts.shape[0] <= 65536 ? ""
                                                  : "at most 65535 sequences";
}

void Run(Context& context, const HeadRowsCall& call) {
  const HeadRowsArgs& a = call.args;
  const CallRows rows = CallRowsOf(call);
  const int64_t heads = rows.results.heads;
  const Temp sums(context, DType::kF64,
                  {std::max<int64_t>(1, rows.sequences), heads, kHeadSlots, 2});
  CudaOf(context).Zero(sums.view().data,
                       static_cast<size_t>(sums.view().size()) * 8);
  double* to = sums.view().Raw<double>();
  if (rows.sequences > 0) {
    cuda::Launch(context, "head rows", SumsKernel,
                 dim3(static_cast<unsigned>(heads),
                      static_cast<unsigned>(rows.sequences), kParts),
                 kThreads, rows, to, a.best_scores.Raw<float>(),
                 a.best_rows.Raw<int32_t>());
  }
  const int64_t buckets = a.histogram ? a.histogram.shape[2] : 0;
  const int64_t threads = heads * (kHeadSlots + buckets);
  cuda::Launch(context, "head tallies", TalliesKernel,
               dim3(static_cast<unsigned>(cuda::CeilDiv(threads, kThreads))),
               kThreads, to, a.histogram.Raw<double>(), rows.sequences, heads,
               buckets, a.tallies.Raw<double>(),
               a.histogram_sums.Raw<double>());
}

}  // namespace

const Implementation<HeadRowsCall> kHeadRowsCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
