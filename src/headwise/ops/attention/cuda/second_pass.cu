// Second passes over (q, k, LSE): dense rows, the largest keys of rows, listed
// pairs, bands, pooled windows. An entry is a dot product of one thread; none
// of them is asked for all entries of a long text but the window, a cell a
// block. Door: launch.h.
#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/device/entry.cuh"
#include "headwise/ops/attention/cuda/launch.h"

namespace headwise::attention_cuda {
namespace {

constexpr int kThreads = 128;

__device__ inline int HeadAt(const ForwardParams& f, int index) {
  return f.active_heads != nullptr ? f.active_heads[index] : index;
}

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

// ---- Bands ----

// The rows of one head of one sequence, and where their entries go; behind a
// band comes the first key, where it is wanted.
struct BandOf {
  Extent extent;
  int rows, columns;  // that are written: padding too, with zeros
  int64_t batch;
  int head;
  const float* lse;
  float *mass, *first;

  __device__ BandOf(const BandParams& p, int sequence, int at_head)
      : extent(ExtentOf(p.forward, sequence)),
        rows(p.forward.packed ? extent.query_len : p.forward.query_len),
        columns(p.width + (p.first.data != nullptr ? 1 : 0)),
        batch(p.forward.packed ? 0 : sequence),
        head(at_head) {
    const int64_t row = extent.query_start;
    const auto& of = p.forward.lse;
    lse = static_cast<const float*>(of.data) + batch * of.batch +
          head * of.head + row;
    mass =
        p.mass + batch * p.mass_batch + head * p.mass_head + row * p.mass_row;
    first = static_cast<float*>(p.first.data) + batch * p.first.batch +
            head * p.first.head + row;
  }
  // −∞ where a row sees nothing or does not count.
  __device__ float Lse(int query) const {
    return query < extent.query_len ? lse[query] : -INFINITY;
  }
  // −1: none that is seen.
  __device__ int Key(const BandParams& p, int query, int column) const {
    const int position = query + extent.offset;
    const int key = column < p.width ? position - p.before + column : 0;
    const bool is_seen = column < columns && key >= 0 && key < extent.key_len &&
                         Sees(p.forward.band, position, key, extent.key_len);
    return is_seen ? key : -1;
  }
  __device__ void Store(const BandParams& p, int query, int column,
                        float value) const {
    if (column < p.width) {
      mass[query * p.mass_row + column] = value;
    } else {
      first[query] = value;
    }
  }
};

// Of rows that have to be read element by element: a thread an entry. grid:
// (blocks of a head, active heads, sequences), the last bounded.
__global__ __launch_bounds__(kThreads) void LooseBandKernel(
    const __grid_constant__ BandParams p) {
  const ForwardParams& f = p.forward;
  for (int b = blockIdx.z; b < f.order.sequences; b += gridDim.z) {
    const BandOf band(p, b, HeadAt(f, blockIdx.y));
    const int64_t entries = static_cast<int64_t>(band.rows) * band.columns;
    for (int64_t n = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
         n < entries; n += static_cast<int64_t>(gridDim.x) * kThreads) {
      const int query = static_cast<int>(n / band.columns);
      const int column = static_cast<int>(n % band.columns);
      const int key = band.Key(p, query, column);
      const QueryRow r = RowOf(f, b, query, band.head);
      band.Store(p, query, column, key < 0 ? 0 : Entry(f, p.is_half, r, key));
    }
  }
}

// Eight lanes a row, 16 bytes of q and of each key to each of them, kColumns
// keys at a time; each of so many lanes ends one entry. Grid as above.
constexpr int kTeam = 8;
template <int kColumns>
__global__ __launch_bounds__(kThreads) void BandKernel(
    const __grid_constant__ BandParams p) {
  constexpr int kRows = kThreads / kTeam;
  const ForwardParams& f = p.forward;
  const int lane = threadIdx.x % kTeam, packs = f.head_dim / 8;
  const int head = HeadAt(f, blockIdx.y);
  for (int b = blockIdx.z; b < f.order.sequences; b += gridDim.z) {
    const BandOf band(p, b, head);
    const uint4* q = RowAt(f.q, band.batch, band.extent.query_start, head);
    const uint4* k =
        RowAt(f.k, band.batch, band.extent.key_start, head / f.queries_per_kv);
    const int64_t q_step = f.q.row / 8, k_step = f.k.row / 8;
    // Whole warps stay together: lanes ask each other.
    for (int begin = blockIdx.x * kRows; begin < band.rows;
         begin += gridDim.x * kRows) {
      const int query = begin + static_cast<int>(threadIdx.x) / kTeam;
      const float lse = band.Lse(query);
      for (int column = 0; column < band.columns; column += kColumns) {
        int keys[kColumns];
        float sums[kColumns] = {};
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          keys[c] = lse == -INFINITY ? -1 : band.Key(p, query, column + c);
        }
        for (int i = lane; i < packs && lse != -INFINITY; i += kTeam) {
          float a[8];
          Widen(q[query * q_step + i], p.is_half, a);
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            if (keys[c] < 0) continue;
            float x[8];
            Widen(k[keys[c] * k_step + i], p.is_half, x);
#pragma unroll
            for (int e = 0; e < 8; ++e) sums[c] = fmaf(a[e], x[e], sums[c]);
          }
        }
        float mine = 0;
        int key = -1;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
#pragma unroll
          for (int step = kTeam / 2; step > 0; step /= 2) {
            sums[c] += __shfl_xor_sync(0xffffffff, sums[c], step);
          }
          if (lane == c) {
            mine = sums[c];
            key = keys[c];
          }
        }
        if (lane >= kColumns || column + lane >= band.columns ||
            query >= band.rows) {
          continue;
        }
        const int position = query + band.extent.offset;
        const float value =
            key < 0 ? 0 : Probability(f, head, mine, position - key, lse);
        band.Store(p, query, column + lane, value);
      }
    }
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

void LaunchBand(const BandParams& params, cudaStream_t stream) {
  // Rows of a team, so that what a head has in common is found once for them.
  constexpr int kRowsOfATeam = 8, kMostSequences = 65535;
  const ForwardParams& f = params.forward;
  const int columns = params.width + (params.first.data != nullptr ? 1 : 0);
  if (columns == 0 || f.query_len == 0 || f.order.heads == 0 ||
      f.order.sequences == 0) {
    return;
  }
  const int rows = kThreads / kTeam * kRowsOfATeam;  // of a block
  const dim3 grid(CeilDiv(f.query_len, rows), f.order.heads,
                  Min(f.order.sequences, kMostSequences));
  const auto kernel = f.is_loose     ? LooseBandKernel
                      : columns <= 4 ? BandKernel<4>
                                     : BandKernel<8>;
  kernel<<<grid, kThreads, 0, stream>>>(params);
  Check();
}

void LaunchWindow(const SecondPassParams& params, int rows, int columns,
                  cudaStream_t stream) {
  WindowKernel<<<dim3(columns, rows), kThreads, 0, stream>>>(params);
  Check();
}

}  // namespace headwise::attention_cuda
