// The streaming softmax of a warp's 16 rows and the statistics gathered with
// it, shared by the kernels: both matrix instructions leave scores alike.
//
// A thread holds, of a 16 × N tile of scores (N ≤ 128), rows r = 0, 1 (lane / 4
// and 8 below) and columns 8k + 2·(lane % 4) + b; score (r, k, b) is s[4k + 2r
// + b]. Every sum here is the thread's own part of its two rows; the four lanes
// of a row are added up once, in the epilogue.
//
// Exponentials are relative to a reference per row, not to its maximum. The
// reference is the maximum of the first tile the row sees; later scores may
// exceed it by far before anything overflows (bf16: 2^64, f16: 2^15), and sums
// and outputs are as precise as with the true maximum. So no maximum is needed
// before the exponentials; a row that leaves the range is noticed by its sum.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace headwise::attention_cuda {

inline constexpr float kLn2 = 0.6931471805599453f;

__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Masked scores are finite, so that 0 · x stays 0 in the entropy; the reference
// of a row that has seen nothing lies far above them and far below real scores.
inline constexpr float kMasked = -1e30f;
inline constexpr float kNoReference = -1e20f;

// Largest sum of a thread's part of one tile that is in range.
template <class T>
inline constexpr float kSumLimit = 0x1p64f;
template <>
inline constexpr float kSumLimit<__half> = 0x1p15f;

// In units of 2^reference.
template <bool kStatistics>
struct Rows {
  float reference[2] = {kNoReference, kNoReference};
  float sum[2] = {0, 0};       // Σ e
  float entropy[2] = {0, 0};   // Σ e·x
  float distance[2] = {0, 0};  // Σ e·|p − j|
  float best[2] = {0, 0};      // largest e
  int place[2] = {0, 0};       // its key
  // Of the full statistics.
  float square_log[2] = {0, 0};  // Σ e·x²
  float squares[2] = {0, 0};     // Σ e²
};

// The sums of one tile.
template <bool kStatistics>
struct TileSums {
  float sum[2];
  float entropy[2];
  float column[2];  // Σ e·(8k + b)
  float best[2];    // largest e, tagged
  float square_log[2], squares[2];
};

__device__ inline void QuadMaximum(float& v) {
  v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
  v = fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}

// Moves the references up to the rows' maxima in s and rescales what was
// summed; `alphas` collects what the output must be scaled by. Returns whether
// every row of the warp has a reference now. kFull here and below: Σe·x² and
// Σe² are gathered too.
template <bool kFull = false, bool kStatistics, int kCount>
__device__ inline bool MoveReference(const float (&s)[kCount],
                                     Rows<kStatistics>& rows, float scale,
                                     float (&alphas)[2]) {
  float top[2][2] = {{kMasked, kMasked}, {kMasked, kMasked}};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    float& m = top[(i / 2) % 2][i % 2];
    m = fmaxf(m, s[i]);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float m = fmaxf(top[r][0], top[r][1]);
    QuadMaximum(m);
    const float next = fmaxf(rows.reference[r], m * scale);
    const float delta = next - rows.reference[r];
    const float alpha = Exp2(-delta);
    if (kFull) {
      // Where nothing is left of the sums, as at the first reference, δ² may
      // overflow.
      const float shifted =
          fmaf(delta, fmaf(delta, rows.sum[r], -2 * rows.entropy[r]),
               rows.square_log[r]);
      rows.square_log[r] = alpha == 0 ? 0 : alpha * shifted;
      rows.squares[r] *= alpha * alpha;
    }
    if (kStatistics) {
      rows.entropy[r] = alpha * (rows.entropy[r] - delta * rows.sum[r]);
      rows.distance[r] *= alpha;
      rows.best[r] *= alpha;
    }
    rows.sum[r] *= alpha;
    rows.reference[r] = next;
    alphas[r] *= alpha;
  }
  return __all_sync(~0u, rows.reference[0] > kNoReference &&
                             rows.reference[1] > kNoReference);
}

// e ≥ 0 with its last 7 bits replaced: one maximum then finds value and column,
// at a relative change below 2^−16 that only the choice among near-equal keys
// can see. The mask should come from memory: as a constant it would take the
// tag's place in the instruction, and cost a second one.
inline constexpr uint32_t kTagMask = ~127u;
__device__ inline float Tagged(float e, uint32_t mask, uint32_t tag) {
  return __uint_as_float((__float_as_uint(e) & mask) | tag);
}

// The largest of three that are not negative.
template <bool kThreeWay>
__device__ inline float Largest(float a, float b, float c) {
  if (!kThreeWay) return fmaxf(a, fmaxf(b, c));
  return __int_as_float(
      __vimax3_s32(__float_as_int(a), __float_as_int(b), __float_as_int(c)));
}

// s becomes e = 2^(s·scale − reference), and is summed; Σe·j only where
// kColumns, otherwise the matrix unit sums it.
template <bool kStatistics, bool kColumns, bool kThreeWay = false,
          bool kFull = false, int kCount>
__device__ inline TileSums<kStatistics> Exponentials(
    float (&s)[kCount], const Rows<kStatistics>& rows, float scale,
    uint32_t mask) {
  TileSums<kStatistics> t;
  float sum[2][2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) t.entropy[r] = t.column[r] = t.best[r] = 0;
  if (kFull) t.square_log[0] = t.square_log[1] = 0;
  if (kFull) t.squares[0] = t.squares[1] = 0;
#pragma unroll
  for (int k = 0; k < kCount / 4; ++k) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float* pair = s + 4 * k + 2 * r;
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const float x = fmaf(pair[b], scale, -rows.reference[r]);
        pair[b] = Exp2(x);
        sum[r][b] += pair[b];
        if (kFull) {
          const float product = pair[b] * x;
          t.entropy[r] += product;
          t.square_log[r] = fmaf(product, x, t.square_log[r]);
          t.squares[r] = fmaf(pair[b], pair[b], t.squares[r]);
        } else if (kStatistics) {
          t.entropy[r] = fmaf(pair[b], x, t.entropy[r]);
        }
        if (kStatistics && kColumns) {
          t.column[r] =
              fmaf(pair[b], static_cast<float>(8 * k + b), t.column[r]);
        }
      }
      if (kStatistics) {
        t.best[r] =
            Largest<kThreeWay>(t.best[r], Tagged(pair[0], mask, 127 - 8 * k),
                               Tagged(pair[1], mask, 126 - 8 * k));
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) t.sum[r] = sum[r][0] + sum[r][1];
  return t;
}

// The sums of logarithms again from e, where a score of −∞ made them NaN: e is
// 0 there and adds nothing.
template <bool kFull = false, bool kStatistics, int kCount>
__device__ inline void MendEntropy(const float (&e)[kCount],
                                   TileSums<kStatistics>& t) {
  t.entropy[0] = t.entropy[1] = 0;
  if (kFull) t.square_log[0] = t.square_log[1] = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int r = (i / 2) % 2;
    const float product = e[i] == 0 ? 0 : e[i] * __log2f(e[i]);
    t.entropy[r] += product;
    if (kFull && e[i] != 0) t.square_log[r] += product * __log2f(e[i]);
  }
}

// Whether no row's entropy needs mending.
template <bool kStatistics>
__device__ inline bool EntropyIsSound(const TileSums<kStatistics>& t) {
  return t.entropy[0] == t.entropy[0] && t.entropy[1] == t.entropy[1];
}

// Adds a tile's sums. `column` is the thread's first key of the tile, `ahead`
// the position of its row 0 minus that. `side` is +1 where the tile's keys are
// all at or before the rows' positions, −1 where all after, 0 where mixed:
// distances are then added one by one from e. Row 1 stands `below` positions
// after row 0.
template <bool kStatistics, bool kColumns, bool kFull = false, int kCount>
__device__ inline void AddTile(Rows<kStatistics>& rows,
                               const TileSums<kStatistics>& t,
                               const float (&e)[kCount], int column, int ahead,
                               int side, int below = 8) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    rows.sum[r] += t.sum[r];
    if (kFull) {
      rows.square_log[r] += t.square_log[r];
      rows.squares[r] += t.squares[r];
    }
    if (kStatistics) {
      rows.entropy[r] += t.entropy[r];
      if (kColumns) {
        const float from = static_cast<float>(ahead + below * r);
        rows.distance[r] += side * fmaf(from, t.sum[r], -t.column[r]);
      }
      const int place = column + 127 - (__float_as_int(t.best[r]) & 127);
      rows.place[r] = t.best[r] >= rows.best[r] ? place : rows.place[r];
      rows.best[r] = fmaxf(t.best[r], rows.best[r]);
    }
  }
  if (kStatistics && side == 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int k = i / 4, r = (i / 2) % 2, b = i % 2;
      const float d = static_cast<float>(ahead + below * r) - (8 * k + b);
      rows.distance[r] = fmaf(e[i], fabsf(d), rows.distance[r]);
    }
  }
}

}  // namespace headwise::attention_cuda
