// The backward pass in three kernels, without atomics, so that results repeat:
//   Prepare         what follows from each row alone (prepare.cu)
//   KeyGradients    dK, dV and column sums: a block of 64 keys walks queries
//   QueryGradients  dQ: a block of 64 queries walks keys
// with P = 2^(s·scale − LSE), dP = dO·Vᵀ, dS = P·(dP − δ). The scores are
// computed twice: 7 products where 5 would do with atomic sums. An entropy's
// gradient g adds −g·ln P to dP, and its mean to δ (delta.cu): with
// H = −Σ P·ln P that is −g·P·(ln P + H) in dS.
#pragma once

#include <type_traits>

#include "headwise/ops/attention/cuda/device/epilogue.cuh"
#include "headwise/ops/attention/cuda/device/score.cuh"
#include "headwise/ops/attention/cuda/device/softmax.cuh"
#include "headwise/ops/attention/cuda/device/task.cuh"
#include "headwise/ops/attention/cuda/sm80/tile.cuh"

namespace headwise::attention_cuda::sm80 {

// Blocks that share the columns of results: larger heads have two.
template <int kDim>
inline constexpr int kParts = kDim <= 128 ? 1 : 2;

// What the rows of a query tile bring.
struct RowInputs {
  float lse[kRows], delta[kRows], log_weight[kRows];
};

template <class T, int kDim, int kValueDim = kDim>
struct BackwardShared {
  Tile<T, kDim> q, k;
  Tile<T, kValueDim> v, dout;
  RowInputs rows;
};

// Rows first … first + 63 of one head.
__device__ inline void LoadRowInputs(const BackwardParams& p, RowInputs& rows,
                                     int sequence, int head, int first) {
  const int64_t from =
      (static_cast<int64_t>(sequence) * p.heads + head) * p.padded_len + first;
  for (int i = threadIdx.x; i < kRows; i += kThreads) {
    rows.lse[i] = p.lse_log2[from + i];
    rows.delta[i] = p.delta[from + i];
    rows.log_weight[i] = p.log_weight != nullptr ? p.log_weight[from + i] : 0;
  }
}

// Calls run(std::integral_constant) with the columns of the kernels that are
// not made for every size.
template <class Run>
void WithFewColumns(const ForwardParams& f, Run run) {
  if (Max(f.head_dim, f.value_dim) <= 128) {
    run(std::integral_constant<int, 128>());
  } else {
    run(std::integral_constant<int, 256>());
  }
}

// Calls run(std::bool_constant) once a tile: whether scores are more than
// scaled, by a shape or by the weight of their logarithms.
template <class Run>
__device__ inline void WithTerms(const BackwardParams& p, Run run) {
  if (p.log_weight != nullptr || p.forward.shape.any()) {
    run(std::true_type());
  } else {
    run(std::false_type());
  }
}

// dP with the entropy's part. x: log2 P, −∞ where P is 0 and adds nothing.
template <bool kTerms>
__device__ inline float WithEntropy(float dp, float x, const RowInputs& rows,
                                    int m) {
  constexpr float kLeast = -150;  // 2^kLeast is 0
  return kTerms ? fmaf(-rows.log_weight[m], fmaxf(x, kLeast), dp) : dp;
}

// Row r of a warp's result, scaled, to `to`; all lanes take part.
template <class T, int kOut>
__device__ inline void StoreGradient(const float (&d)[kOut / 2], float scale,
                                     const Strided& view, int64_t batch,
                                     int64_t row, int head, int first_column,
                                     int columns, int rows_left) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int in_tile = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * r;
    T* to = RowsOf<T>(view, false, batch, row + in_tile, head) + first_column;
    StoreRow<T, kOut>(d, r, scale, nullptr, 0, to, columns - first_column,
                      in_tile < rows_left);
  }
}

// scores → P, dP → dS of a transposed tile: the thread's rows are keys j0 and
// j0 + 8, its columns queries from `first` on. Adds P to the keys' sums.
template <bool kTerms>
__device__ inline void TransposedGradients(const BackwardParams& p,
                                           const RowInputs& rows,
                                           const Extent& extent, int head,
                                           int j0, int first, float (&s)[32],
                                           float (&dp)[32],
                                           float (&received)[2]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int r = (i / 2) % 2;
    const int in_tile = 8 * (i / 4) + 2 * (threadIdx.x % 4) + i % 2;
    const int position = first + in_tile + extent.offset, key = j0 + 8 * r;
    const bool seen = Sees(p.forward.band, position, key, extent.key_len);
    const Shaped x = LogProbabilityOf<kTerms>(
        p.forward, head, s[i], position - key, rows.lse[in_tile]);
    s[i] = seen ? Exp2(x.z) : 0;
    received[r] += s[i];
    const float w = WithEntropy<kTerms>(dp[i], x.z, rows, in_tile);
    dp[i] = s[i] * (w - rows.delta[in_tile]) * x.slope;
  }
}

// grid: (⌈key_len / 64⌉, kv_heads, sequences · kParts).
template <class T, int kDim, int kValueDim>
__global__ __launch_bounds__(kThreads) void KeyGradientsKernel(
    const __grid_constant__ BackwardParams p) {
  constexpr int kOut = kDim / kParts<kDim>;
  constexpr int kValueOut = kValueDim / kParts<kDim>;
  extern __shared__ __align__(128) uint8_t raw[];
  auto& shared = *reinterpret_cast<BackwardShared<T, kDim, kValueDim>*>(raw);
  const ForwardParams& f = p.forward;
  const int kv_head = blockIdx.y, sequence = blockIdx.z % p.sequences;
  const int part = blockIdx.z / p.sequences, begin = blockIdx.x * kRows;
  const Extent extent = ExtentOf(f, sequence);
  const int64_t batch = f.packed ? 0 : sequence;
  const int rows_left = (f.packed ? extent.key_len : f.key_len) - begin;
  if (rows_left <= 0) return;
  const int row = threadIdx.x / 32 * 16;
  const int j0 = begin + row + threadIdx.x % 32 / 4;
  const T* k = RowsOf<T>(f.k, false, batch, extent.key_start + begin, kv_head);
  const T* v = RowsOf<T>(f.v, false, batch, extent.key_start + begin, kv_head);
  LoadTile(shared.k, k, f.k.row, extent.key_len - begin, f.head_dim);
  LoadTile(shared.v, v, f.v.row, extent.key_len - begin, f.value_dim);
  float dk[kOut / 2] = {}, dv[kValueOut / 2] = {};
  const int last = Min(extent.key_len, begin + kRows) - 1;
  const int2 blocks = QueryBlocks(f.band, extent, begin, last, kRows);
  for (int g = 0; g < f.queries_per_kv; ++g) {
    const int head = kv_head * f.queries_per_kv + g;
    if (p.is_active != nullptr && !p.is_active[head]) continue;
    float received[2] = {};
    for (int block = blocks.x; block < blocks.y; ++block) {
      const int first = block * kRows;
      const int64_t q_row = extent.query_start + first;
      __syncthreads();
      LoadTile(shared.q, RowsOf<T>(f.q, false, batch, q_row, head), f.q.row,
               extent.query_len - first, f.head_dim);
      LoadTile(shared.dout, RowsOf<T>(p.d_o, false, batch, q_row, head),
               p.d_o.row, extent.query_len - first, f.value_dim);
      CopyCommit();
      LoadRowInputs(p, shared.rows, sequence, head, first);
      CopyWait<0>();
      __syncthreads();
      float s[32] = {}, dp[32] = {};
      RowProduct<T, kDim>(s, shared.k, row, shared.q);
      RowProduct<T, kValueDim>(dp, shared.v, row, shared.dout);
      WithTerms(p, [&]<bool kTerms>(std::bool_constant<kTerms>) {
        TransposedGradients<kTerms>(p, shared.rows, extent, head, j0, first, s,
                                    dp, received);
      });
      uint32_t a[4][4];
      AsOperand<T>(s, a);
      ColumnProduct<T, kValueDim, kValueOut>(dv, a, shared.dout,
                                             part * kValueOut);
      AsOperand<T>(dp, a);
      ColumnProduct<T, kDim, kOut>(dk, a, shared.q, part * kOut);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = QuadSum(received[r]);
      if (p.received.data == nullptr || part != 0 || threadIdx.x % 4 != 0 ||
          j0 + 8 * r >= begin + rows_left) {
        continue;
      }
      static_cast<float*>(
          p.received.data)[batch * p.received.batch + head * p.received.head +
                           extent.key_start + j0 + 8 * r] = sum;
    }
  }
  const int64_t key_row = extent.key_start + begin;
  if (p.dk.data != nullptr) {
    StoreGradient<T, kOut>(dk, p.scale, p.dk, batch, key_row, kv_head,
                           part * kOut, f.head_dim, rows_left);
  }
  if (p.dv.data != nullptr) {
    StoreGradient<T, kValueOut>(dv, 1, p.dv, batch, key_row, kv_head,
                                part * kValueOut, f.value_dim, rows_left);
  }
}

// dP → dS of a tile whose rows are the block's queries from `in_block` on and
// its columns keys from `begin` on. kSlope: of the scores before the soft cap,
// else of those after.
template <bool kTerms, bool kSlope = true>
__device__ inline void QueryScoreGradients(const ForwardParams& f,
                                           const Task& t, const RowInputs& rows,
                                           int begin, int in_block,
                                           const float (&s)[32],
                                           float (&dp)[32]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int m = in_block + 8 * ((i / 2) % 2);
    const int key = begin + 8 * (i / 4) + 2 * (threadIdx.x % 4) + i % 2;
    const int position = t.first_query + m + t.extent.offset;
    const bool seen = Sees(f.band, position, key, t.extent.key_len);
    const Shaped x =
        LogProbabilityOf<kTerms>(f, t.head, s[i], position - key, rows.lse[m]);
    const float w = WithEntropy<kTerms>(dp[i], x.z, rows, m);
    const float dz = Exp2(x.z) * (w - rows.delta[m]);
    dp[i] = seen ? (kSlope ? dz * x.slope : dz) : 0;
  }
}

// Walks the keys that a task's queries see: visit(begin, s, dp) for each tile,
// with the warp's 16 rows of Q·Kᵀ and dO·Vᵀ for keys from `begin` on. Steps: of
// 16 columns that the products take.
template <class T, int kDim, int kValueDim, class Visit>
__device__ inline void VisitKeys(const BackwardParams& p, const Task& t,
                                 BackwardShared<T, kDim, kValueDim>& shared,
                                 Visit visit, int head_steps = kDim / 16,
                                 int value_steps = kValueDim / 16) {
  const ForwardParams& f = p.forward;
  const int kv_head = t.head / f.queries_per_kv;
  const int64_t batch = f.packed ? 0 : t.sequence;
  const int64_t q_row = t.extent.query_start + t.first_query;
  const int left = t.extent.query_len - t.first_query;
  LoadTile(shared.q, RowsOf<T>(f.q, false, batch, q_row, t.head), f.q.row, left,
           f.head_dim);
  LoadTile(shared.dout, RowsOf<T>(p.d_o, false, batch, q_row, t.head),
           p.d_o.row, left, f.value_dim);
  LoadRowInputs(p, shared.rows, t.sequence, t.head, t.first_query);
  const int row = threadIdx.x / 32 * 16;
  for (int step = 0; step < t.count; ++step) {
    const int begin = t.walk.Tile(step) * kRows;
    const int64_t k_row = t.extent.key_start + begin;
    __syncthreads();
    LoadTile(shared.k, RowsOf<T>(f.k, false, batch, k_row, kv_head), f.k.row,
             t.extent.key_len - begin, f.head_dim);
    LoadTile(shared.v, RowsOf<T>(f.v, false, batch, k_row, kv_head), f.v.row,
             t.extent.key_len - begin, f.value_dim);
    CopyCommit();
    CopyWait<0>();
    __syncthreads();
    float s[32] = {}, dp[32] = {};
    RowProduct<T, kDim>(s, shared.q, row, shared.k, head_steps);
    RowProduct<T, kValueDim>(dp, shared.dout, row, shared.v, value_steps);
    visit(begin, s, dp);
  }
}

// grid: (work items, kParts).
template <class T, int kDim, int kValueDim>
__global__ __launch_bounds__(kThreads) void QueryGradientsKernel(
    const __grid_constant__ BackwardParams p) {
  constexpr int kOut = kDim / kParts<kDim>;
  extern __shared__ __align__(128) uint8_t raw[];
  auto& shared = *reinterpret_cast<BackwardShared<T, kDim, kValueDim>*>(raw);
  const ForwardParams& f = p.forward;
  const Task t = MakeTask(f, blockIdx.x, kRows, kRows);
  const int part = blockIdx.y;
  const int in_tile = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  float dq[kOut / 2] = {};
  VisitKeys<T, kDim>(
      p, t, shared, [&](int begin, float(&s)[32], float(&dp)[32]) {
        WithTerms(p, [&]<bool kTerms>(std::bool_constant<kTerms>) {
          QueryScoreGradients<kTerms>(f, t, shared.rows, begin, in_tile, s, dp);
        });
        uint32_t a[4][4];
        AsOperand<T>(dp, a);
        ColumnProduct<T, kDim, kOut>(dq, a, shared.k, part * kOut);
      });
  const int64_t batch = f.packed ? 0 : t.sequence;
  const int64_t q_row = t.extent.query_start + t.first_query;
  const int rows_len = f.packed ? t.extent.query_len : f.query_len;
  StoreGradient<T, kOut>(dq, p.scale, p.dq, batch, q_row, t.head, part * kOut,
                         f.head_dim, rows_len - t.first_query);
}

}  // namespace headwise::attention_cuda::sm80
