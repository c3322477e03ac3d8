// Sums of row statistics per sequence and head, in double and in an order that
// does not depend on how blocks run: each thread takes every 256th row, the
// threads are added pairwise. Door: launch.h.
#include "headwise/backend/cuda/backend.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/cuda/device/sink.cuh"
#include "headwise/ops/attention/cuda/launch.h"

namespace headwise::attention_cuda {
namespace {

static_assert(kBuckets == kHistogramBuckets);
static_assert(kMiddleBucket == kHistogramCenter);
static_assert(kMostLabels == kMaxLabelChannels);

constexpr int kThreads = 256;

__device__ inline float ReadRow(const RowResult& rows, int64_t at) {
  return rows.data == nullptr ? 0 : static_cast<const float*>(rows.data)[at];
}

__device__ inline void AddRow(const SumParams& p, const Extent& extent,
                              int batch, int head, int query,
                              double (&sums)[kSumColumns]) {
  const ForwardParams& f = p.forward;
  const int64_t row = extent.query_start + query;
  const auto read = [&](const RowResult& r) {
    return ReadRow(r, batch * r.batch + head * r.head + row);
  };
  const float lse = read(f.lse);
  if (lse == -INFINITY) return;
  if (!isfinite(lse)) {
    sums[kSumNonFinite] += 1;
    return;
  }
  const double w =
      p.weights.data != nullptr ? *p.weights.At(batch, row, 0) : 1.0;
  const int position = query + extent.offset;
  const int argmax = static_cast<const int*>(
      f.argmax.data)[batch * f.argmax.batch + head * f.argmax.head + row];
  const double visible = VisibleKeys(f.band, position, extent.key_len);
  const double entropy = read(f.entropy);
  sums[kSumCount] += w;
  sums[kSumEntropy] += w * entropy;
  if (visible > 1) sums[kSumNormalizedEntropy] += w * entropy / log(visible);
  sums[kSumMaxProbability] += w * read(f.max_probability);
  sums[kSumDistance] += w * read(f.distance);
  sums[kSumArgmaxDistance] += w * abs(position - argmax);
  sums[kSumVisible] += w * visible;
  sums[kSumMissing] += w * SinkShare(f, head, lse);
  if (p.full) {
    sums[kSumVarentropy] += w * read(p.varentropy);
    sums[kSumSquares] += w * read(p.sum_squares);
    sums[kSumKeptMax] += w * read(p.kept_max);
  }
}

// Partial sums of a column over the blocks of queries.
__device__ inline void SumPartials(const SumParams& p, int sequence,
                                   int head_index, int head) {
  const double* from =
      p.partials +
      (static_cast<int64_t>(sequence) * p.forward.order.heads + head_index) *
          p.blocks * p.width;
  for (int c = threadIdx.x; c < p.width; c += kThreads) {
    double sum = 0;
    for (int b = 0; b < p.blocks; ++b) {
      sum += from[static_cast<int64_t>(b) * p.width + c];
    }
    const int label = c - kBuckets - p.feature_count;
    const int feature = c - kBuckets;
    if (label >= 0) {
      if (p.label_mass.data != nullptr) {
        *p.label_mass.At(sequence, head, label) = sum;
      }
    } else if (feature >= 0) {
      if (p.feature_mass.data != nullptr) {
        *p.feature_mass.At(sequence, head, feature) = sum;
      }
    } else if (p.histogram.data != nullptr) {
      *p.histogram.At(sequence, head, c) = sum;
    }
  }
}

// grid: (heads of the order, sequences).
__global__ __launch_bounds__(kThreads) void SumKernel(
    const __grid_constant__ SumParams p) {
  __shared__ double shared[kThreads];
  const ForwardParams& f = p.forward;
  const int sequence = blockIdx.y;
  const int head =
      f.active_heads != nullptr ? f.active_heads[blockIdx.x] : blockIdx.x;
  const Extent extent = ExtentOf(f, sequence);
  if (p.partials != nullptr) SumPartials(p, sequence, blockIdx.x, head);
  if (p.sums.data == nullptr) return;
  double sums[kSumColumns] = {};
  for (int query = threadIdx.x; query < extent.query_len; query += kThreads) {
    AddRow(p, extent, f.packed ? 0 : sequence, head, query, sums);
  }
#pragma unroll
  for (int c = 0; c < kSumColumns; ++c) {
    shared[threadIdx.x] = sums[c];
    __syncthreads();
    for (int step = kThreads / 2; step > 0; step /= 2) {
      if (threadIdx.x < step) {
        shared[threadIdx.x] += shared[threadIdx.x + step];
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) *p.sums.At(sequence, head, c) = shared[0];
    __syncthreads();
  }
}

// grid: (⌈query_len / kThreads⌉, heads of the order, sequences).
__global__ __launch_bounds__(kThreads) void MissingKernel(
    const __grid_constant__ ForwardParams f, RowResult missing) {
  const int query = blockIdx.x * kThreads + threadIdx.x;
  const int head =
      f.active_heads != nullptr ? f.active_heads[blockIdx.y] : blockIdx.y;
  const Extent extent = ExtentOf(f, blockIdx.z);
  if (query >= (f.packed ? extent.query_len : f.query_len)) return;
  const int64_t batch = f.packed ? 0 : blockIdx.z;
  const int64_t row = extent.query_start + query;
  const float lse = static_cast<const float*>(
      f.lse.data)[batch * f.lse.batch + head * f.lse.head + row];
  const bool has_numbers = lse == -INFINITY || isfinite(lse);
  static_cast<float*>(
      missing.data)[batch * missing.batch + head * missing.head + row] =
      has_numbers ? SinkShare(f, head, lse) : NAN;
}

}  // namespace

void LaunchMissing(const ForwardParams& forward, const RowResult& missing,
                   cudaStream_t stream) {
  const WorkOrder& order = forward.order;
  const dim3 grid(CeilDiv(forward.query_len, kThreads), order.heads,
                  order.sequences);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  MissingKernel<<<grid, kThreads, 0, stream>>>(forward, missing);
  CheckCuda(cudaGetLastError(), "attention cuda missing");
}

void LaunchSums(const SumParams& params, cudaStream_t stream) {
  const WorkOrder& order = params.forward.order;
  if (order.heads == 0 || order.sequences == 0) return;
  SumKernel<<<dim3(order.heads, order.sequences), kThreads, 0, stream>>>(
      params);
  CheckCuda(cudaGetLastError(), "attention cuda sums");
}

}  // namespace headwise::attention_cuda
