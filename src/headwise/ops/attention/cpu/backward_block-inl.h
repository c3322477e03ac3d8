// The backward of one block of queries against one chunk of keys, for whatever
// vector width the enclosing file is compiled for (included once per target).
// Door: backward.h.
//
// For each panel of kTileColumns keys:
//   S = Q Kᵀ, dP = dO Vᵀ         products over dimensions
//   P = 2^(S − LSE), dS = P ∘ (g·dP − δ)
//   dVᵀ += dOᵀ (g·P), dKᵀ += Qᵀ dS    products over queries
// and once for kGroupKeys keys, from the transposed dS:
//   dQᵀ += Kᵀ dSᵀ                 product over keys

// clang-format off
#if defined(HEADWISE_OPS_ATTENTION_CPU_BACKWARD_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_OPS_ATTENTION_CPU_BACKWARD_BLOCK_INL_H_
#undef HEADWISE_OPS_ATTENTION_CPU_BACKWARD_BLOCK_INL_H_
#else
#define HEADWISE_OPS_ATTENTION_CPU_BACKWARD_BLOCK_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "headwise/ops/attention/cpu/score_tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Keys whose dS is kept for one product with K: long enough that the sums of dq
// are seldom loaded and stored, and kBlockQueries × 96 × 4 = 36 KiB.
inline constexpr size_t kGroupKeys = 96;
inline constexpr size_t kQueryPanels = kBlockQueries / kTileColumns;

// A worker's buffers. D and E are rounded up to whole tiles where they are
// lines of A (…_along) or rows of sums.
struct BackwardBuffers {
  // Of a chunk of keys.
  float* k_across;   // [panels, D, kTileColumns]
  float* v_across;   // [panels, E, kTileColumns]
  float* k_along;    // [D / kTileRows, keys, kTileRows]
  float* dk;         // [panels, D, kTileColumns]
  float* dv;         // [panels, E, kTileColumns]
  double* received;  // [keys]
  bool k_finite;
  // Of a block of queries.
  float* q_across;     // [queries / kTileRows, D, kTileRows], times factor
  float* q_along;      // [D / kTileRows, queries, kTileRows]
  float* dout_across;  // [queries / kTileRows, E, kTileRows]
  float* dout_along;   // [E / kTileRows, queries, kTileRows]
  float* dq;           // [kQueryPanels, D, kTileColumns]
  float* shift;        // [queries] each:
  float* gate;
  float* delta;     // ⟨g·dout, O⟩
  float* dentropy;  // ∂L/∂H
  float* entropy;   // H
  bool q_finite;
  bool dout_finite;
  // Of a tile.
  float* s;          // [queries, kTileColumns]: S, then g·P
  float* ds;         // [queries, kTileColumns]: dP, then dS
  float* cap_slope;  // [queries, kTileColumns]
  float* ds_turned;  // [kQueryPanels, kGroupKeys, kTileColumns]
  float* rows;       // [kTileColumns, D or E]: sums turned back into rows
};

struct BackwardSizes {
  size_t d = 0;        // head_dim
  size_t e = 0;        // value_dim
  size_t d_tiles = 0;  // rounded up to kTileRows
  size_t e_tiles = 0;
  size_t chunk = 0;  // keys

  // Hands out parts of `base`; with a null base only counts.
  size_t Layout(float* base, BackwardBuffers& b) const {
    size_t used = 0;
    const auto take = [&](size_t count) {
      float* part = base == nullptr ? nullptr : base + used;
      used += RoundUp(count, 16);
      return part;
    };
    b.k_across = take(chunk * d);
    b.v_across = take(chunk * e);
    b.k_along = take(chunk * d_tiles);
    b.dk = take(chunk * d_tiles);
    b.dv = take(chunk * e_tiles);
    b.received = reinterpret_cast<double*>(take(2 * chunk));
    b.q_across = take(kBlockQueries * d);
    b.q_along = take(kBlockQueries * d_tiles);
    b.dout_across = take(kBlockQueries * e);
    b.dout_along = take(kBlockQueries * e_tiles);
    b.dq = take(kBlockQueries * d_tiles);
    for (float** row : {&b.shift, &b.gate, &b.delta, &b.dentropy, &b.entropy}) {
      *row = take(kBlockQueries);
    }
    b.s = take(kBlockQueries * kTileColumns);
    b.ds = take(kBlockQueries * kTileColumns);
    b.cap_slope = take(kBlockQueries * kTileColumns);
    b.ds_turned = take(kBlockQueries * kGroupKeys);
    b.rows = take(kTileColumns * std::max(d_tiles, e_tiles));
    return used;
  }
};

// What a block needs to know of the call.
struct BackwardWanted {
  bool dq = false;
  bool dk = false;
  bool dv = false;
  bool entropy = false;
  bool received = false;
  double* table = nullptr;  // [2R + 1] or null

  bool scores() const { return dq || dk || table != nullptr; }
};

// The numbers of one query, repeated over a vector.
struct QueryNumbers {
  VF shift, gate, delta, dentropy, entropy;
};

// s: S → g·P and ds: dP → dz for one vector; returns P. Masked entries are −∞
// in S and become 0 whatever else their row holds.
template <bool kMasked, bool kEntropy>
HWY_INLINE VF Gradients(const QueryNumbers& query, float* HWY_RESTRICT s,
                        float* HWY_RESTRICT ds) {
  const F32 d;
  const VF score = hn::LoadU(d, s);
  // Below kLowest a probability is 2^-126 instead of 0: it weighs nothing.
  const VF x = AtLeast(hn::Set(d, kLowest), hn::Sub(score, query.shift));
  VF p = Exp2Bounded(x);
  VF slope = hn::MulSub(query.gate, hn::LoadU(d, ds), query.delta);
  if (kEntropy) {
    const VF surprise = hn::MulAdd(x, hn::Set(d, kLn2), query.entropy);
    slope = hn::NegMulAdd(query.dentropy, surprise, slope);
  }
  VF dz = hn::Mul(p, slope);
  VF gated = hn::Mul(p, query.gate);
  if (kMasked) {
    const auto unseen = hn::Eq(score, hn::Set(d, kMinusInfinity));
    p = hn::IfThenZeroElse(unseen, p);
    dz = hn::IfThenZeroElse(unseen, dz);
    gated = hn::IfThenZeroElse(unseen, gated);
  }
  hn::StoreU(gated, d, s);
  hn::StoreU(dz, d, ds);
  return p;
}

// All rows of a tile. received[kTileColumns] += column sums of P over finite
// rows; null: not wanted.
template <bool kMasked, bool kEntropy>
HWY_NOINLINE void TileGradients(const BackwardBuffers& b, TileRange rows,
                                double* HWY_RESTRICT received) {
  const F32 d;
  Row total = ZeroRow();
  for (size_t r = rows.begin; r < rows.end; ++r) {
    const QueryNumbers query = {
        hn::Set(d, b.shift[r]), hn::Set(d, b.gate[r]), hn::Set(d, b.delta[r]),
        hn::Set(d, b.dentropy[r]), hn::Set(d, b.entropy[r])};
    float* s = b.s + r * kTileColumns;
    float* ds = b.ds + r * kTileColumns;
    const VF x = Gradients<kMasked, kEntropy>(query, s, ds);
    const VF y = Gradients<kMasked, kEntropy>(query, s + kLanes, ds + kLanes);
    const VF z =
        Gradients<kMasked, kEntropy>(query, s + 2 * kLanes, ds + 2 * kLanes);
    if (received != nullptr && std::isfinite(b.shift[r])) {
      total.x = hn::Add(total.x, x);
      total.y = hn::Add(total.y, y);
      total.z = hn::Add(total.z, z);
    }
  }
  if (received == nullptr) return;
  HWY_ALIGN float sums[kTileColumns];
  StoreRow(total, sums);
  for (size_t c = 0; c < kTileColumns; ++c) received[c] += sums[c];
}

// table[clamp(j − p)] += dz over a tile of queries from `first` and keys from
// j.
HWY_NOINLINE void AddToTable(const ScoreRule& rule, int64_t first, int64_t j,
                             TileRange rows, const float* HWY_RESTRICT dz,
                             double* HWY_RESTRICT table) {
  constexpr int64_t kKeys = kTileColumns;
  const int64_t reach = rule.reach;
  for (size_t r = rows.begin; r < rows.end; ++r) {
    const float* row = dz + r * kTileColumns;
    const int64_t distance =
        j - (first + static_cast<int64_t>(r) + rule.sequence.offset);
    if (distance >= -reach && distance + kKeys - 1 <= reach) {
      double* to = table + distance + reach;
      for (int64_t c = 0; c < kKeys; ++c) to[c] += row[c];
    } else {
      for (int64_t c = 0; c < kKeys; ++c) {
        table[std::clamp(distance + c, -reach, reach) + reach] += row[c];
      }
    }
  }
}

// c += a row, a half or a whole tile.
HWY_INLINE void AddTo(const Row& r, float* HWY_RESTRICT c) {
  const Row sum = LoadRow(c);
  StoreRow({hn::Add(sum.x, r.x), hn::Add(sum.y, r.y), hn::Add(sum.z, r.z)}, c);
}
HWY_INLINE void AddTo(const HalfTile& t, float* HWY_RESTRICT c) {
  AddTo(t.r0, c);
  AddTo(t.r1, c + kTileColumns);
  AddTo(t.r2, c + 2 * kTileColumns);
  AddTo(t.r3, c + 3 * kTileColumns);
}
HWY_INLINE void AddTo(const Tile& t, float* HWY_RESTRICT c) {
  AddTo(t.upper, c);
  if constexpr (kTileRows == 8) AddTo(t.lower, c + 4 * kTileColumns);
}

// c: [lines, kTileColumns] += AᵀB over `depth`. a: [lines / kTileRows, a_depth,
// kTileRows] from its row `a_begin` on, b: [depth, kTileColumns]. Each block's
// product is summed on its own first: over thousands of queries, terms added
// one by one to a large sum lose the digits that cancel later.
HWY_NOINLINE void AddProducts(const float* HWY_RESTRICT a, size_t a_depth,
                              const float* HWY_RESTRICT b, size_t depth,
                              size_t lines, float* HWY_RESTRICT c) {
  for (size_t e = 0; e < lines; e += kTileRows) {
    Tile t = ZeroTile();
    AddProduct(t, a + e * a_depth, b, depth);
    AddTo(t, c + e * kTileColumns);
  }
}

// The same where A holds a number that is not finite: what is masked (0 in B)
// must not meet it. Slow; such data is on its way out.
HWY_NOINLINE void AddSeenProducts(const float* a, size_t a_depth,
                                  const float* b, size_t depth, size_t lines,
                                  float* c) {
  for (size_t p = 0; p < depth; ++p) {
    for (size_t n = 0; n < kTileColumns; ++n) {
      const float value = b[p * kTileColumns + n];
      if (value == 0) continue;
      for (size_t e = 0; e < lines; ++e) {
        const float* panel = a + e / kTileRows * kTileRows * a_depth;
        c[e * kTileColumns + n] += value * panel[p * kTileRows + e % kTileRows];
      }
    }
  }
}

// Which panels of a group of keys each panel of queries has in ds_turned.
struct Turned {
  TileRange panels[kQueryPanels];
  bool masked = false;
};

// Puts dS of one panel of keys, number `panel` of its group, into ds_turned.
HWY_NOINLINE void TurnTile(const BackwardBuffers& b, TileRange rows,
                           size_t panel, Turned& turned) {
  constexpr size_t kCells = kTileColumns * kTileColumns;
  std::fill(b.ds + rows.begin / kTileColumns * kCells,
            b.ds + rows.begin * kTileColumns, 0.0f);
  const size_t last = RoundUp(rows.end, kTileColumns);
  std::fill(b.ds + rows.end * kTileColumns, b.ds + last * kTileColumns, 0.0f);
  for (size_t p = rows.begin / kTileColumns; p * kTileColumns < rows.end; ++p) {
    float* to = b.ds_turned + p * kGroupKeys * kTileColumns;
    TileRange& filled = turned.panels[p];
    if (filled.empty()) filled = {panel, panel};
    std::fill(to + filled.end * kCells, to + panel * kCells, 0.0f);
    PackPanel({b.ds + p * kCells, kTileColumns, 1}, kTileColumns, kTileColumns,
              kTileColumns, 1.0f, to + panel * kCells);
    filled.end = panel + 1;
  }
}

// A block of queries [first, first + count) against the panel of keys from j,
// which is number `panel` of the chunk.
HWY_INLINE void BackwardTile(const ScoreRule& rule, const BackwardSizes& sizes,
                             const BackwardWanted& wanted,
                             const BackwardBuffers& b, int64_t first,
                             size_t count, int64_t j, size_t panel,
                             Turned& turned) {
  const TileRange rows = RowsSeeing(rule, first, count, j);
  if (rows.empty()) return;
  const size_t depth = rows.end - rows.begin;
  const size_t from = panel * kTileColumns;
  const bool masked =
      ScoreTile(rule, first, count, rows, j, b.q_across,
                b.k_across + from * sizes.d, sizes.d, b.s, b.cap_slope);
  if (wanted.scores()) {
    Multiply(b.dout_across, b.v_across + from * sizes.e, sizes.e, rows, b.ds);
  }
  const auto gradients =
      wanted.entropy
          ? TileGradients<true, true>
          : (masked ? TileGradients<true, false> : TileGradients<false, false>);
  gradients(b, rows, wanted.received ? b.received + from : nullptr);
  if (wanted.dv) {
    const auto add = masked && !b.dout_finite ? AddSeenProducts : AddProducts;
    add(b.dout_along + rows.begin * kTileRows, kBlockQueries,
        b.s + rows.begin * kTileColumns, depth, sizes.e_tiles,
        b.dv + from * sizes.e_tiles);
  }
  if (!wanted.scores()) return;
  if (wanted.table != nullptr) {
    AddToTable(rule, first, j, rows, b.ds, wanted.table);
  }
  if (rule.cap != 0) {
    for (size_t n = rows.begin * kTileColumns; n < rows.end * kTileColumns;
         ++n) {
      b.ds[n] = b.ds[n] == 0 ? 0 : b.ds[n] * b.cap_slope[n];
    }
  }
  if (wanted.dk) {
    const auto add = masked && !b.q_finite ? AddSeenProducts : AddProducts;
    add(b.q_along + rows.begin * kTileRows, kBlockQueries,
        b.ds + rows.begin * kTileColumns, depth, sizes.d_tiles,
        b.dk + from * sizes.d_tiles);
  }
  if (wanted.dq) {
    turned.masked |= masked;
    TurnTile(b, rows, from % kGroupKeys / kTileColumns, turned);
  }
}

// Block against chunk: adds to dk, dv, received and the table, and sets dq to
// the chunk's part. Keys [j, j_end) are the chunk.
HWY_INLINE void BackwardBlock(const ScoreRule& rule, const BackwardSizes& sizes,
                              const BackwardWanted& wanted,
                              const BackwardBuffers& b, int64_t first,
                              size_t count, int64_t j, int64_t j_end) {
  std::fill(b.dq, b.dq + kBlockQueries * sizes.d_tiles, 0.0f);
  constexpr int64_t kGroup = kGroupKeys, kPanel = kTileColumns;
  for (int64_t group = j; group < j_end; group += kGroup) {
    Turned turned;
    const int64_t group_end = std::min(j_end, group + kGroup);
    for (int64_t key = group; key < group_end; key += kPanel) {
      BackwardTile(rule, sizes, wanted, b, first, count, key,
                   (key - j) / kPanel, turned);
    }
    if (!wanted.dq) continue;
    const auto add =
        turned.masked && !b.k_finite ? AddSeenProducts : AddProducts;
    for (size_t p = 0; p < kQueryPanels; ++p) {
      const TileRange& panels = turned.panels[p];
      if (panels.empty()) continue;
      const size_t begin = panels.begin * kTileColumns;
      add(b.k_along + ((group - j) + begin) * kTileRows, sizes.chunk,
          b.ds_turned + (p * kGroupKeys + begin) * kTileColumns,
          panels.end * kTileColumns - begin, sizes.d_tiles,
          b.dq + p * kTileColumns * sizes.d_tiles);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_OPS_ATTENTION_CPU_BACKWARD_BLOCK_INL_H_
