// Decoding: a few queries against a long cache of keys and values. Bound by
// memory, so that every byte is read once for all heads that share it: a block
// holds 16 rows (queries × heads of one key/value head) and streams a run of
// keys, each warp its own 16 of every tile, copies two tiles ahead and no
// barrier between warps. A block that walks all keys of its rows finishes them;
// otherwise the last of the blocks that share rows adds their runs up. Door:
// launch.h.
#include "headwise/ops/attention/cuda/combine.cuh"
#include "headwise/ops/attention/cuda/device/mask.cuh"
#include "headwise/ops/attention/cuda/device/score.cuh"
#include "headwise/ops/attention/cuda/device/task.cuh"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/launch_kernel.cuh"
#include "headwise/ops/attention/cuda/sm80/tile.cuh"
#include "headwise/ops/cuda/kernel.cuh"

namespace headwise::attention_cuda {
namespace {

using sm80::PieceAddress;

constexpr int kStages = 3;
constexpr int kColumns = kDecodeColumns;
constexpr int kWarpKeys = 16;

template <class T>
struct DecodeShared {
  sm80::Tile<T, kColumns> k[kStages], v[kStages];
};
// What the warps leave for each other when they are done, in the same memory.
struct DecodeResults {
  RowPartial rows[4][kDecodeRows];
  float o[4][kDecodeRows][kColumns];
};
constexpr int kSharedBytes = sizeof(DecodeShared<__half>);
static_assert(sizeof(DecodeResults) <= kSharedBytes);

// The block's work: rows of one key/value head of one sequence.
struct DecodeTask {
  int sequence, kv_head, first_row, rows;  // rows that the block has
  int step_begin, step_end;
  Extent extent;
  KeyWalk walk;
  int first, last;  // positions of the block's first and last row

  __device__ int Head(const ForwardParams& f, int row) const {
    return kv_head * f.queries_per_kv + (first_row + row) % f.queries_per_kv;
  }
  __device__ int Query(const ForwardParams& f, int row) const {
    return (first_row + row) / f.queries_per_kv;
  }
};

// grid: (row blocks · splits, kv_heads, sequences): blocks that read the same
// keys are neighbours.
__device__ inline DecodeTask MakeDecodeTask(const DecodeParams& p) {
  const ForwardParams& f = p.forward;
  DecodeTask t;
  t.sequence = blockIdx.z;
  t.kv_head = blockIdx.y;
  t.first_row = blockIdx.x % p.row_blocks * kDecodeRows;
  t.extent = ExtentOf(f, t.sequence);
  const int all = t.extent.query_len * f.queries_per_kv;
  t.rows = Max(0, Min(kDecodeRows, all - t.first_row));
  t.first = t.Query(f, 0) + t.extent.offset;
  t.last = t.Query(f, Max(0, t.rows - 1)) + t.extent.offset;
  if (t.rows > 0) {
    t.walk = WalkKeys(f.band, t.first, t.last, t.extent.key_len, kDecodeKeys);
  }
  t.step_begin = blockIdx.x / p.row_blocks * p.plan.steps;
  t.step_end = Min(t.walk.count(), t.step_begin + p.plan.steps);
  return t;
}

// The thread's part of the rows' queries as the products' operand, [16 × 128],
// zeros past the end.
template <class T>
__device__ inline void LoadQueries(const DecodeParams& p, const DecodeTask& t,
                                   uint32_t (&q)[kColumns / 16][4]) {
  const ForwardParams& f = p.forward;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = threadIdx.x % 32 / 4 + 8 * r;
    const T* from = nullptr;
    if (row < t.rows) {
      from = RowsOf<T>(f.q, f.packed, t.sequence,
                       t.extent.query_start + t.Query(f, row), t.Head(f, row));
    }
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      const int column = 8 * i + 2 * (threadIdx.x % 4);
      const bool valid = from != nullptr && column < f.head_dim;
      q[i / 2][r + 2 * (i % 2)] =
          valid ? *reinterpret_cast<const uint32_t*>(from + column) : 0;
    }
  }
}

// A lane's part of the warp's 16 rows of every tile: the same 16 bytes of every
// second row.
template <class T>
struct RowStream {
  const T* from;
  int64_t stride;
  int row, piece;  // of a tile; the lane's first row
  bool used;       // the piece lies within the columns that products read
  bool real;       // and within the head

  __device__ RowStream(const T* rows, int64_t row_stride, int dim)
      : stride(row_stride) {
    const int lane = threadIdx.x % 32;
    row = threadIdx.x / 32 * kWarpKeys + lane / 16;
    piece = lane % 16;
    used = piece < 2 * CeilDiv(dim, 16);
    real = 8 * piece < dim;
    from = rows + row * stride + (real ? 8 * piece : 0);
  }

  // The tile that begins at `begin`, zeros from row `rows` of it on; in the
  // background.
  __device__ void Load(sm80::Tile<T, kColumns>& tile, int begin,
                       int rows) const {
    if (!used) return;
    const T* at = from + begin * stride;
#pragma unroll
    for (int i = 0; i < kWarpKeys / 2; ++i) {
      const bool valid = real && row + 2 * i < rows;
      CopyAsync(PieceAddress(tile, row + 2 * i, piece), valid ? at : from,
                valid);
      at += 2 * stride;
    }
  }
};

// s[16 × 16] of the warp's keys.
template <class T>
__device__ inline void Scores(const uint32_t (&q)[kColumns / 16][4],
                              const sm80::Tile<T, kColumns>& k, int dim,
                              float (&s)[8]) {
  const int lane = threadIdx.x % 32, in = lane % 8, block = lane / 8;
  const int row = threadIdx.x / 32 * kWarpKeys + in + 8 * (block >> 1);
#pragma unroll
  for (int i = 0; i < 8; ++i) s[i] = 0;
#pragma unroll
  for (int i = 0; i < kColumns / 16; ++i) {
    if (16 * i >= dim) break;
    uint32_t y[4];
    LoadBlocks(y, PieceAddress(k, row, 2 * i + (block & 1)));
    SmallProduct<T>(s, q[i][0], q[i][1], q[i][2], q[i][3], y[0], y[1]);
    SmallProduct<T>(s + 4, q[i][0], q[i][1], q[i][2], q[i][3], y[2], y[3]);
  }
}

template <class T>
__device__ inline void AddValues(const float (&e)[8],
                                 const sm80::Tile<T, kColumns>& v, int dim,
                                 float (&o)[kColumns / 2]) {
  const int lane = threadIdx.x % 32, in = lane % 8, block = lane / 8;
  const int row = threadIdx.x / 32 * kWarpKeys + in + 8 * (block & 1);
  uint32_t a[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = Pack<T>(e[2 * i], e[2 * i + 1]);
#pragma unroll
  for (int n = 0; n < kColumns / 16; ++n) {
    if (16 * n >= dim) break;
    uint32_t y[4];
    LoadBlocksTransposed(y, PieceAddress(v, row, 2 * n + (block >> 1)));
    SmallProduct<T>(o + 8 * n, a[0], a[1], a[2], a[3], y[0], y[1]);
    SmallProduct<T>(o + 8 * n + 4, a[0], a[1], a[2], a[3], y[2], y[3]);
  }
}

// What a thread knows of its two rows.
struct ThreadRows {
  int head[2], position[2];
};

// Scores of keys from `begin` on become exponentials and are added to the rows.
__device__ inline void TreatKeys(const ForwardParams& f, const DecodeTask& t,
                                 const ThreadRows& at, float (&s)[8], int begin,
                                 Rows<true>& rows, float (&o)[kColumns / 2]) {
  const int column = begin + 2 * (threadIdx.x % 4);
  const bool full =
      TileIsFull(f.band, t.first, t.last, t.extent.key_len, begin, kWarpKeys);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (f.shape.any()) {
      ShapeRow(f, at.head[r], s, r, at.position[r] - column);
    }
    if (!full) MaskRow(s, r, f.band, at.position[r], column, t.extent.key_len);
  }
  float alphas[2] = {1, 1};
  MoveReference(s, rows, f.scale_log2, alphas);
  TileSums<true> sums =
      Exponentials<true, true>(s, rows, f.scale_log2, kTagMask);
  if (!__all_sync(~0u, EntropyIsSound(sums))) MendEntropy(s, sums);
  int side = 0;
  if (f.band.after == 0 || begin + kWarpKeys - 1 <= t.first) side = 1;
  if (begin > t.last) side = -1;
  AddTile<true, true>(rows, sums, s, column, at.position[0] - column, side,
                      at.position[1] - at.position[0]);
  if (__any_sync(~0u, alphas[0] != 1 || alphas[1] != 1)) {
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) o[i] *= alphas[(i / 2) % 2];
  }
}

// The block's rows' place among those of all blocks that share keys or rows.
__device__ inline int64_t UnitOf(const DecodeParams& p) {
  return (static_cast<int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) *
             p.row_blocks +
         blockIdx.x % p.row_blocks;
}

// Leaves what the warp has of the rows for the others.
__device__ inline void ShareWarp(const Rows<true>& rows,
                                 const float (&o)[kColumns / 2],
                                 DecodeResults& shared) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + 8 * r;
    const RowPartial part = GatherRow(rows, r);
    if (lane % 4 == 0) shared.rows[warp][row] = part;
#pragma unroll
    for (int k = 0; k < kColumns / 8; ++k) {
      *reinterpret_cast<float2*>(&shared.o[warp][row][8 * k + 2 * (lane % 4)]) =
          make_float2(o[4 * k + 2 * r], o[4 * k + 2 * r + 1]);
    }
  }
  __syncthreads();
}

// A row of all warps, and a lane's four columns of it, by one warp.
struct BlockRow {
  RowPartial part;
  float4 o;
};
__device__ inline BlockRow AddWarps(DecodeResults& shared, int row) {
  const int lane = threadIdx.x % 32;
  BlockRow sum{shared.rows[0][row], make_float4(0, 0, 0, 0)};
#pragma unroll
  for (int w = 1; w < 4; ++w) sum.part = Merged(sum.part, shared.rows[w][row]);
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const RowPartial& part = shared.rows[w][row];
    const float alpha = Exp2(part.reference - sum.part.reference);
    AddScaled(sum.o, alpha, FourOf(shared.o[w][row], lane), part.sum != 0);
  }
  return sum;
}

// Leaves the block's rows in p.parts and p.outputs.
__device__ inline void StoreRun(const DecodeParams& p, const DecodeTask& t,
                                DecodeResults& shared) {
  const int64_t first =
      (UnitOf(p) * p.plan.splits + blockIdx.x / p.row_blocks) * kDecodeRows;
  for (int row = threadIdx.x / 32; row < t.rows; row += 4) {
    const BlockRow sum = AddWarps(shared, row);
    const int lane = threadIdx.x % 32;
    FourOf(p.outputs + (first + row) * kColumns, lane) = sum.o;
    if (lane == 0) p.parts[first + row] = sum.part;
  }
}

// Whether all other blocks of these rows have stored their runs.
__device__ inline bool IsLast(const DecodeParams& p) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    int* done = p.done + UnitOf(p);
    last = atomicAdd(done, 1) == p.plan.splits - 1;
    if (last) *done = 0;
    __threadfence();
  }
  __syncthreads();
  return last;
}

// finish(row, at) for the block's rows, a warp a row. Also of rows past the end
// of a sequence, which see nothing.
template <class Finish>
__device__ inline void ForRows(const DecodeParams& p, const DecodeTask& t,
                               const Finish& finish) {
  const ForwardParams& f = p.forward;
  const int len = f.packed ? t.extent.query_len : f.query_len;
  for (int row = threadIdx.x / 32; row < kDecodeRows; row += 4) {
    const int query = t.Query(f, row), head = t.Head(f, row);
    if (query >= len) return;
    if (p.is_active != nullptr && !p.is_active[head]) continue;
    const RowPlace at{
        f.packed ? 0 : t.sequence,    head, query,
        t.extent.query_start + query, true, query < t.extent.query_len};
    finish(row, at);
  }
}

// The block's rows from its warps' parts, where it has walked all their keys.
__device__ inline void FinishBlock(const DecodeParams& p, const DecodeTask& t,
                                   DecodeResults& shared) {
  ForRows(p, t, [&](int row, const RowPlace& at) {
    BlockRow sum{{kNoReference, 0, 0, 0, 0, 0}, make_float4(0, 0, 0, 0)};
    if (at.counts) sum = AddWarps(shared, row);
    FinishDecoded(p, at, sum.part, sum.o);
  });
}

// The same from the runs of all blocks that share the rows.
__device__ inline void CombineRows(const DecodeParams& p, const DecodeTask& t) {
  const int64_t first = UnitOf(p) * p.plan.splits * kDecodeRows;
  ForRows(p, t,
          [&](int row, const RowPlace& at) { CombineRow(p, first + row, at); });
}

template <class T>
__device__ inline void DecodeRun(const DecodeParams& p, uint8_t* raw) {
  auto& shared = *reinterpret_cast<DecodeShared<T>*>(raw);
  const ForwardParams& f = p.forward;
  const DecodeTask t = MakeDecodeTask(p);
  const T* k =
      RowsOf<T>(f.k, f.packed, t.sequence, t.extent.key_start, t.kv_head);
  const T* v =
      RowsOf<T>(f.v, f.packed, t.sequence, t.extent.key_start, t.kv_head);
  const RowStream<T> keys(k, f.k.row, f.head_dim);
  const RowStream<T> values(v, f.v.row, f.value_dim);
  const auto load = [&](int step) {
    if (step < t.step_end) {
      const int begin = t.walk.Tile(step) * kDecodeKeys;
      const int stage = step % kStages;
      keys.Load(shared.k[stage], begin, t.extent.key_len - begin);
      values.Load(shared.v[stage], begin, t.extent.key_len - begin);
    }
    CopyCommit();  // empty past the end: the count of copies stays in step
  };
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) load(t.step_begin + i);
  uint32_t q[kColumns / 16][4];
  LoadQueries<T>(p, t, q);
  ThreadRows at;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = threadIdx.x % 32 / 4 + 8 * r;
    at.head[r] = t.Head(f, row);
    at.position[r] = t.Query(f, row) + t.extent.offset;
  }
  float o[kColumns / 2] = {};
  Rows<true> rows;
  for (int step = t.step_begin; step < t.step_end; ++step) {
    CopyWait<kStages - 2>();
    __syncwarp();
    load(step + kStages - 1);
    const int stage = step % kStages;
    float s[8];
    Scores<T>(q, shared.k[stage], f.head_dim, s);
    TreatKeys(f, t, at, s,
              t.walk.Tile(step) * kDecodeKeys + threadIdx.x / 32 * kWarpKeys,
              rows, o);
    AddValues<T>(s, shared.v[stage], f.value_dim, o);
  }
  CopyWait<0>();
  DecodeResults& results = *reinterpret_cast<DecodeResults*>(raw);
  ShareWarp(rows, o, results);
  if (p.plan.splits == 1) return FinishBlock(p, t, results);
  StoreRun(p, t, results);
  if (IsLast(p)) CombineRows(p, t);
}

// Asks the cache for what is 16 bytes wide or more; nothing is read, so that it
// does not matter who still writes.
__device__ inline void FetchRow(const Strided& view, int row, int dim) {
#if __CUDA_ARCH__ >= 900
  const int bytes = dim / 8 * 16;
  if (bytes == 0) return;
  const auto* from =
      RowsOf<const uint16_t>(view, false, blockIdx.z, row, blockIdx.y);
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from),
               "r"(bytes)
               : "memory");
#endif
}

// A short context's keys and values on their way while the kernel before this
// one still runs. The length may be an old one: it is read past the first
// cache, which does not follow other kernels, and again after the wait.
__device__ inline void FetchShort(const DecodeParams& p) {
  const ForwardParams& f = p.forward;
  if (f.packed || f.key_len > kWholeTiles * kDecodeKeys) return;
  int keys = f.key_len;
  if (f.key_lengths != nullptr) {
    keys = Min(keys, __ldcg(f.key_lengths + blockIdx.z));
  }
  for (int row = threadIdx.x; row < keys; row += 128) {
    FetchRow(f.k, row, f.head_dim);
    FetchRow(f.v, row, f.value_dim);
  }
}

__global__ __launch_bounds__(128, kDecodeBlocks) void DecodeKernel(
    const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(128) uint8_t raw[];
  cuda::LetNextBegin();
  FetchShort(p);
  cuda::WaitForLast();
  const int heads = p.forward.queries_per_kv;
  const int first = blockIdx.y * heads;
  bool any = p.is_active == nullptr;
  for (int h = 0; !any && h < heads; ++h) any = p.is_active[first + h] != 0;
  if (!any) return;
  p.is_half ? DecodeRun<__half>(p, raw) : DecodeRun<__nv_bfloat16>(p, raw);
}

}  // namespace

void LaunchDecode(const DecodeParams& params, cudaStream_t stream) {
  const ForwardParams& f = params.forward;
  const dim3 grid(params.row_blocks * params.plan.splits, params.kv_heads,
                  f.order.sequences);
  LaunchKernelEarly(DecodeKernel, grid, 128, kSharedBytes, stream,
                    "attention cuda decode", params);
}

}  // namespace headwise::attention_cuda
