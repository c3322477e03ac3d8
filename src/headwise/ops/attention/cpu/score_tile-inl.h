// Tiles of scores: a block of queries against a panel of kTileColumns keys, for
// whatever vector width the enclosing file is compiled for (included once per
// target). Used by the backward and by the second passes.

// clang-format off
#if defined(HEADWISE_OPS_ATTENTION_CPU_SCORE_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_OPS_ATTENTION_CPU_SCORE_TILE_INL_H_
#undef HEADWISE_OPS_ATTENTION_CPU_SCORE_TILE_INL_H_
#else
#define HEADWISE_OPS_ATTENTION_CPU_SCORE_TILE_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "headwise/ops/attention/cpu/score-inl.h"
#include "headwise/ops/attention/cpu/score_rule.h"
#include "headwise/ops/matmul/cpu/pack-inl.h"
#include "headwise/ops/matmul/cpu/tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Queries of a block: whole tiles and whole panels at every vector width
// (8 × 12, 4 × 24, 8 × 48), and long enough that the products over queries
// seldom load and store their sums.
inline constexpr size_t kBlockQueries = 96;

inline size_t RoundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

// Rows first … first + count of a view's head, `stride` apart.
struct HeadRows {
  const float* data = nullptr;
  int64_t stride = 0;
};

// to: [⌈count / width⌉, dim, width], zero past the end: the lines of A or B.
HWY_INLINE void PackAcross(const HeadRows& rows, size_t count, size_t dim,
                           size_t width, float scale, float* to) {
  for (size_t i = 0; i < count; i += width) {
    PackPanel(
        {rows.data + static_cast<int64_t>(i) * rows.stride, rows.stride, 1},
        std::min(width, count - i), dim, width, scale, to + i * dim);
  }
}

// to: [⌈dim / kTileRows⌉, depth, kTileRows], zero past dim and past count: the
// columns of the rows, for products that run over the rows.
HWY_INLINE void PackAlong(const HeadRows& rows, size_t count, size_t dim,
                          size_t depth, float* to) {
  for (size_t e = 0; e < dim; e += kTileRows) {
    float* panel = to + e * depth;
    PackPanel({rows.data + e, 1, rows.stride}, std::min(kTileRows, dim - e),
              count, kTileRows, 1.0f, panel);
    std::fill(panel + count * kTileRows, panel + depth * kTileRows, 0.0f);
  }
}

// Rows [begin, end) of a block, in whole tiles.
struct TileRange {
  size_t begin = 0;
  size_t end = 0;
  bool empty() const { return begin >= end; }
};

// The queries of [first, first + count) that see keys [j, j + kTileColumns),
// relative to first.
HWY_INLINE TileRange RowsSeeing(const ScoreRule& rule, int64_t first,
                                size_t count, int64_t j) {
  const QueryRange range =
      QueriesSeeing(rule, {first, first + static_cast<int64_t>(count)}, j,
                    j + static_cast<int64_t>(kTileColumns));
  if (range.empty()) return {};
  return {static_cast<size_t>(range.begin - first) / kTileRows * kTileRows,
          RoundUp(range.end - first, kTileRows)};
}

// c: [rows, kTileColumns] = AᵀB. a: [rows / kTileRows, depth, kTileRows],
// b: [depth, kTileColumns].
HWY_INLINE void Multiply(const float* HWY_RESTRICT a,
                         const float* HWY_RESTRICT b, size_t depth,
                         TileRange rows, float* HWY_RESTRICT c) {
  for (size_t r = rows.begin; r < rows.end; r += kTileRows) {
    Tile t = ZeroTile();
    AddProduct(t, a + r * depth, b, depth);
    StoreTile(t, c + r * kTileColumns, kTileColumns);
  }
}

// Scores of queries first + [rows) with keys from j: s [kBlockQueries,
// kTileColumns], −∞ where unseen. slope gets the soft cap's derivative and may
// be null. q, k: packed. Returns whether any score may be −∞.
HWY_INLINE bool ScoreTile(const ScoreRule& rule, int64_t first, size_t count,
                          TileRange rows, int64_t j,
                          const float* HWY_RESTRICT q,
                          const float* HWY_RESTRICT k, size_t depth,
                          float* HWY_RESTRICT s, float* HWY_RESTRICT slope) {
  Multiply(q, k, depth, rows, s);
  const int64_t j_end = j + static_cast<int64_t>(kTileColumns);
  const bool masked =
      rows.end > count ||
      !rule.SeesAll(first + static_cast<int64_t>(rows.begin),
                    first + static_cast<int64_t>(rows.end), j, j_end);
  if (!masked && rule.plain()) return false;
  for (size_t r = rows.begin; r < rows.end; ++r) {
    float* row = s + r * kTileColumns;
    if (r < count) {
      ScoreRow(rule, first + static_cast<int64_t>(r), j, row,
               slope == nullptr ? nullptr : slope + r * kTileColumns);
    } else {
      std::fill(row, row + kTileColumns, kMinusInfinity);
    }
  }
  return masked;
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_OPS_ATTENTION_CPU_SCORE_TILE_INL_H_
