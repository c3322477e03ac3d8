// Second passes over (q, k, LSE): dense rows, the largest keys of rows, listed
// pairs, pooled windows. An entry is a dot product of one thread; none
// of them is asked for all entries of a long text but the window, a cell a
// block. Door: launch.h.
#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/device/entry.cuh"
#include "headwise/ops/attention/cuda/launch.h"

namespace headwise::attention_cuda {
namespace {

constexpr int kThreads = 128;

// grid: (⌈N / 128⌉, active heads, rows).
__global__ __launch_bounds__(kThreads) void RowsKernel(
    const __grid_constant__ SecondPassParams p) {
  const int key = blockIdx.x * kThreads + threadIdx.x;
  if (key >= p.forward.key_len) return;
  const PassRow at = p.rows[blockIdx.z];
  const int head = HeadAt(p.forward, blockIdx.y);
  const QueryRow r = RowOf(p.forward, at.sequence, at.query, head);
  *p.values.At(blockIdx.z, head, key) =
      key < r.key_len ? Entry(p.forward, p.is_half, r, key) : 0;
}

// The larger of two entries, of equals the first key; −1: none.
__device__ inline int2 Better(int2 a, int2 b) {
  const float x = __int_as_float(a.x), y = __int_as_float(b.x);
  const bool take = a.y < 0 || (b.y >= 0 && (y > x || (y == x && b.y < a.y)));
  return take ? b : a;
}

// Takes p.top keys one after another off a dense row (p.dense, kept as it is):
// each time the best that comes after the one before. grid: (active heads,
// rows).
__global__ __launch_bounds__(kThreads) void TopKernel(
    const __grid_constant__ SecondPassParams p) {
  __shared__ int2 shared[kThreads];
  const int head = HeadAt(p.forward, blockIdx.x);
  const PassRow at = p.rows[blockIdx.y];
  const QueryRow r = RowOf(p.forward, at.sequence, at.query, head);
  const float* row = p.dense.At(blockIdx.y, head, 0);
  float last = INFINITY;
  int last_key = -1;
  for (int n = 0; n < p.top; ++n) {
    int2 best = make_int2(0, -1);
    for (int j = threadIdx.x; j < r.key_len; j += kThreads) {
      if (!isfinite(r.lse) || !Sees(p.forward.band, r.position, j, r.key_len)) {
        continue;
      }
      const float x = row[j];
      const bool left = x < last || (x == last && j > last_key);
      if (left) best = Better(best, make_int2(__float_as_int(x), j));
    }
    shared[threadIdx.x] = best;
    __syncthreads();
    for (int step = kThreads / 2; step > 0; step /= 2) {
      if (threadIdx.x < step) {
        shared[threadIdx.x] =
            Better(shared[threadIdx.x], shared[threadIdx.x + step]);
      }
      __syncthreads();
    }
    best = shared[0];
    __syncthreads();
    last_key = best.y;
    last = best.y >= 0 ? __int_as_float(best.x) : -1;
    if (threadIdx.x == 0) {
      *p.keys.At(blockIdx.y, head, n) = best.y;
      *p.values.At(blockIdx.y, head, n) = best.y >= 0 ? last : 0;
    }
  }
}

// rows and keys: of every pair. grid: (⌈pairs / 128⌉, active heads).
__global__ __launch_bounds__(kThreads) void PairsKernel(
    const __grid_constant__ SecondPassParams p) {
  const int n = blockIdx.x * kThreads + threadIdx.x;
  if (n >= p.pairs) return;
  const int head = HeadAt(p.forward, blockIdx.y);
  const QueryRow r =
      RowOf(p.forward, p.rows[n].sequence, p.rows[n].query, head);
  const int key = p.pair_keys[n];
  *p.values.At(head, n, 0) =
      key < r.key_len ? Entry(p.forward, p.is_half, r, key) : 0;
  if (p.is_argmax.data != nullptr) {
    *p.is_argmax.At(head, n, 0) = *p.argmax.At(r.batch, head, r.row) == key;
  }
}

__device__ inline int CellBegin(int index, int size, int cells) {
  return static_cast<int>(static_cast<int64_t>(index) * size / cells);
}
// A cell holds at least one element.
__device__ inline int CellEnd(int index, int size, int cells) {
  return Max(CellBegin(index, size, cells) + 1,
             CellBegin(index + 1, size, cells));
}

// grid: (columns, rows) of the picture.
__global__ __launch_bounds__(kThreads) void WindowKernel(
    const __grid_constant__ SecondPassParams p) {
  __shared__ float largest[kThreads], sum[kThreads];
  const WindowPlace& w = p.window;
  const int column = blockIdx.x, line = blockIdx.y;
  const int i0 = CellBegin(line, w.queries, gridDim.y);
  const int i1 = CellEnd(line, w.queries, gridDim.y);
  const int j0 = CellBegin(column, w.keys, gridDim.x);
  const int j1 = CellEnd(column, w.keys, gridDim.x);
  float top = 0, total = 0;
  for (int i = i0; i < i1; ++i) {
    const QueryRow r = RowOf(p.forward, w.sequence, w.first_query + i, w.head);
    for (int j = j0 + threadIdx.x; j < j1; j += kThreads) {
      const float x = Entry(p.forward, p.is_half, r, w.first_key + j);
      top = fmaxf(top, x);
      total += x;
    }
  }
  largest[threadIdx.x] = top;
  sum[threadIdx.x] = total;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) {
      largest[threadIdx.x] =
          fmaxf(largest[threadIdx.x], largest[threadIdx.x + step]);
      sum[threadIdx.x] += sum[threadIdx.x + step];
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const float cells = static_cast<float>(i1 - i0) * (j1 - j0);
  if (p.values.data != nullptr) *p.values.At(line, column, 0) = largest[0];
  if (p.mean.data != nullptr) *p.mean.At(line, column, 0) = sum[0] / cells;
}

void Check() { CheckCuda(cudaGetLastError(), "attention cuda second pass"); }

}  // namespace

void LaunchRows(const SecondPassParams& params, int rows, cudaStream_t stream) {
  const int heads = params.forward.order.heads;
  if (rows == 0 || heads == 0 || params.forward.key_len == 0) return;
  const dim3 grid(CeilDiv(params.forward.key_len, kThreads), heads, rows);
  RowsKernel<<<grid, kThreads, 0, stream>>>(params);
  Check();
}

void LaunchTop(const SecondPassParams& params, int rows, cudaStream_t stream) {
  const int heads = params.forward.order.heads;
  if (rows == 0 || heads == 0) return;
  TopKernel<<<dim3(heads, rows), kThreads, 0, stream>>>(params);
  Check();
}

void LaunchPairs(const SecondPassParams& params, cudaStream_t stream) {
  const int heads = params.forward.order.heads;
  if (params.pairs == 0 || heads == 0) return;
  PairsKernel<<<dim3(CeilDiv(params.pairs, kThreads), heads), kThreads, 0,
                stream>>>(params);
  Check();
}

void LaunchWindow(const SecondPassParams& params, int rows, int columns,
                  cudaStream_t stream) {
  WindowKernel<<<dim3(columns, rows), kThreads, 0, stream>>>(params);
  Check();
}

}  // namespace headwise::attention_cuda
