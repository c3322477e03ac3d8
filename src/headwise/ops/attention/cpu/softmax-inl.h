// The streaming softmax of a panel over one tile of keys, and the statistics
// that ride along. Included once per target; used by the forward.
//
// attention.md's mathematics: x = s − m, e = 2^x; when the maximum moves by δ,
// sums over earlier keys are brought to the new one before the tile is added.

// clang-format off
#if defined(HEADWISE_OPS_ATTENTION_CPU_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_OPS_ATTENTION_CPU_SOFTMAX_INL_H_
#undef HEADWISE_OPS_ATTENTION_CPU_SOFTMAX_INL_H_
#else
#define HEADWISE_OPS_ATTENTION_CPU_SOFTMAX_INL_H_
#endif
// clang-format on

#include <cstddef>
#include <cstdint>

#include "headwise/ops/attention/cpu/exp2-inl.h"
#include "headwise/ops/attention/cpu/panel-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Largest score of each query in a tile, and its key as an offset from the
// first (the first of equal ones).
struct TileMaximum {
  Row value, key;
};

// s: [keys, kTileColumns]. kKeys: also find the key. Keys whose `skip` is not 0
// are left out.
template <bool kKeys>
HWY_INLINE TileMaximum FindMaximum(const float* HWY_RESTRICT s, size_t keys,
                                   const uint8_t* HWY_RESTRICT skip) {
  const F32 d;
  const VF lowest = hn::Set(d, kMinusInfinity);
  VF x = lowest, y = lowest, z = lowest;
  VF key_x = hn::Zero(d), key_y = key_x, key_z = key_x;
  VF key = hn::Zero(d);
  const VF one = hn::Set(d, 1.0f);
  for (size_t r = 0; r < keys; ++r, s += kTileColumns) {
    if (skip == nullptr || skip[r] == 0) {
      const Row row = LoadRow(s);
      if constexpr (kKeys) {
        key_x = hn::IfThenElse(hn::Gt(row.x, x), key, key_x);
        key_y = hn::IfThenElse(hn::Gt(row.y, y), key, key_y);
        key_z = hn::IfThenElse(hn::Gt(row.z, z), key, key_z);
      }
      x = hn::Max(x, row.x);
      y = hn::Max(y, row.y);
      z = hn::Max(z, row.z);
    }
    if constexpr (kKeys) key = hn::Add(key, one);
  }
  return {{x, y, z}, {key_x, key_y, key_z}};
}

// Takes in the keys that were left out: `top` is then that of all. They are
// few, as sinks are.
HWY_INLINE void AddSkipped(const float* HWY_RESTRICT s, size_t keys,
                           const uint8_t* HWY_RESTRICT skip, TileMaximum& top) {
  const F32 d;
  for (size_t r = 0; r < keys; ++r) {
    if (skip[r] == 0) continue;
    const Row row = LoadRow(s + r * kTileColumns);
    const VF key = hn::Set(d, static_cast<float>(r));
    const auto add = [&](VF value, VF& best, VF& at) HWY_ATTR {
      // The first of equal ones.
      const auto before = hn::And(hn::Eq(value, best), hn::Lt(key, at));
      at = hn::IfThenElse(hn::Or(hn::Gt(value, best), before), key, at);
      best = hn::Max(best, value);
    };
    add(row.x, top.value.x, top.key.x);
    add(row.y, top.value.y, top.key.y);
    add(row.z, top.value.z, top.key.z);
  }
}

// A larger maximum replaces the one before, with its key (j + offset).
HWY_INLINE void RaiseMaximum(VF value, VF offset, int64_t j, float* m,
                             int32_t* argmax) {
  const F32 d;
  const I32 di;
  const VF old = hn::LoadU(d, m);
  const auto higher = hn::RebindMask(di, hn::Gt(value, old));
  const auto key =
      hn::Add(hn::ConvertTo(di, offset), hn::Set(di, static_cast<int32_t>(j)));
  hn::StoreU(hn::IfThenElse(higher, key, hn::LoadU(di, argmax)), di, argmax);
  hn::StoreU(hn::Max(old, value), d, m);
}

// Sums over the keys of one tile for one vector of queries. d: Σ of the partial
// sums of e = Σ e·(keys − r), which costs one addition.
struct ColumnSums {
  VF l, t, d, u, r;
};

// One key: adds its e and x.
template <WalkLevel kLevel>
HWY_INLINE void AddScore(VF e, VF x, ColumnSums& sums) {
  sums.l = hn::Add(sums.l, e);
  if constexpr (kLevel != WalkLevel::kNone) sums.d = hn::Add(sums.d, sums.l);
  if constexpr (kLevel == WalkLevel::kFull) {
    const VF ex = hn::Mul(e, x);
    sums.t = hn::Add(sums.t, ex);
    sums.u = hn::MulAdd(ex, x, sums.u);
    sums.r = hn::MulAdd(e, e, sums.r);
  } else if constexpr (kLevel != WalkLevel::kNone) {
    sums.t = hn::MulAdd(e, x, sums.t);
  }
}

// Scores become e, in place. s: [keys, kTileColumns], of which kLanes columns.
// kMasked: some may be −∞. kPartial: partial[r] gets Σ e over keys ≤ r.
template <WalkLevel kLevel, bool kMasked, bool kPartial>
HWY_INLINE ColumnSums SoftmaxColumn(float* HWY_RESTRICT s, size_t keys, VF m,
                                    float* HWY_RESTRICT partial) {
  const F32 d;
  const VF low = hn::Set(d, kLowest);
  const VF zero = hn::Zero(d);
  ColumnSums sums = {zero, zero, zero, zero, zero};
  for (size_t r = 0; r < keys; r += kKeyStep) {
    float* at = s + r * kTileColumns;
    const auto load = [&](size_t i) HWY_ATTR {
      return hn::LoadU(d, at + i * kTileColumns);
    };
    const Eight score = {load(0), load(1), load(2), load(3),
                         load(4), load(5), load(6), load(7)};
    const Eight x =
        Map(score, [&](VF v) HWY_ATTR { return AtLeast(low, hn::Sub(v, m)); });
    Eight e = Exp2Bounded(x);
    if constexpr (kMasked) {
      e = Map(score, e, [&](VF v, VF w) HWY_ATTR {
        return hn::IfThenZeroElse(hn::Eq(v, hn::Set(d, kMinusInfinity)), w);
      });
    }
    const auto add = [&](size_t i, VF ei, VF xi) HWY_ATTR {
      hn::StoreU(ei, d, at + i * kTileColumns);
      AddScore<kLevel>(ei, xi, sums);
      if constexpr (kPartial) {
        hn::StoreU(sums.l, d, partial + (r + i) * kTileColumns);
      }
    };
    add(0, e.v0, x.v0);
    add(1, e.v1, x.v1);
    add(2, e.v2, x.v2);
    add(3, e.v3, x.v3);
    add(4, e.v4, x.v4);
    add(5, e.v5, x.v5);
    add(6, e.v6, x.v6);
    add(7, e.v7, x.v7);
  }
  return sums;
}

// Σ e·|p − j| of one vector of queries where some keys come before and some
// after. e: [keys, kTileColumns]; before: p − j of the first key.
HWY_INLINE VF DistanceAcross(const float* HWY_RESTRICT e, size_t keys,
                             VF before) {
  const F32 d;
  VF sum = hn::Zero(d);
  for (size_t r = 0; r < keys; ++r) {
    const VF distance =
        hn::Abs(hn::Sub(before, hn::Set(d, static_cast<float>(r))));
    sum = hn::MulAdd(hn::LoadU(d, e + r * kTileColumns), distance, sum);
  }
  return sum;
}

// What of a tile the statistics need to know.
struct TileWalk {
  int64_t j = 0;  // its first key
  size_t keys = 0;
};

// Σ e·|p − j| over the tile for lanes from `lane` on.
HWY_INLINE VF TileDistance(const Panel& panel, const TileWalk& walk,
                           size_t lane, const float* e,
                           const ColumnSums& sums) {
  const F32 d;
  // Of the key after the last one: p − j − keys.
  const int64_t past =
      panel.position - walk.j - static_cast<int64_t>(walk.keys);
  const VF query = hn::LoadU(d, panel.lane_query + lane);
  const VF from_end = hn::Add(hn::Set(d, static_cast<float>(past)), query);
  // Only for tiles that the queries have passed: near the diagonal the two
  // terms nearly cancel, and wide tiles would lose digits.
  if (past >= -1) {
    return hn::MulAdd(from_end, sums.l, sums.d);
  }
  if (panel.position + static_cast<int64_t>(kTileColumns) <= walk.j + 1) {
    return hn::Neg(hn::MulAdd(from_end, sums.l, sums.d));
  }
  const VF before =
      hn::Add(hn::Set(d, static_cast<float>(panel.position - walk.j)), query);
  return DistanceAcross(e, walk.keys, before);
}

// Brings a query's sums to the new maximum (δ = old − new ≤ 0, α = 2^δ) and
// adds the tile's. Before the first visible key l = 0 and δ is held at kLowest.
template <WalkLevel kLevel>
HWY_INLINE void AddTile(Panel& panel, size_t lane, VF delta, VF alpha,
                        const ColumnSums& sums, VF distance) {
  const F32 d;
  const VF l = hn::LoadU(d, panel.l + lane);
  const VF t = hn::LoadU(d, panel.t + lane);
  if constexpr (kLevel == WalkLevel::kFull) {
    const VF u = hn::LoadU(d, panel.u + lane);
    const VF moved = hn::MulAdd(delta, hn::MulAdd(delta, l, hn::Add(t, t)), u);
    hn::StoreU(hn::MulAdd(alpha, moved, sums.u), d, panel.u + lane);
    const VF r = hn::LoadU(d, panel.r + lane);
    hn::StoreU(hn::MulAdd(hn::Mul(alpha, alpha), r, sums.r), d, panel.r + lane);
  }
  if constexpr (kLevel != WalkLevel::kNone) {
    hn::StoreU(hn::MulAdd(alpha, hn::MulAdd(delta, l, t), sums.t), d,
               panel.t + lane);
    hn::StoreU(hn::MulAdd(alpha, hn::LoadU(d, panel.d + lane), distance), d,
               panel.d + lane);
  }
  hn::StoreU(hn::MulAdd(alpha, l, sums.l), d, panel.l + lane);
}

// One vector of queries: from scores to e and into the sums. Returns α.
template <WalkLevel kLevel, bool kMasked, bool kPartial>
HWY_INLINE VF UpdateColumn(Panel& panel, const TileWalk& walk, size_t lane,
                           VF old_m, float* s, float* partial) {
  const F32 d;
  const VF zero = hn::Zero(d);
  VF m = hn::LoadU(d, panel.m + lane);
  // A query that has seen nothing yet: any reference will do for its zeros.
  m = hn::IfThenElse(hn::Eq(m, hn::Set(d, kMinusInfinity)), zero, m);
  const VF delta = AtLeast(hn::Set(d, kLowest), hn::Sub(old_m, m));
  const VF alpha = Exp2Bounded(delta);
  const ColumnSums sums = SoftmaxColumn<kLevel, kMasked, kPartial>(
      s + lane, walk.keys, m, partial + lane);
  VF distance = zero;
  if constexpr (kLevel != WalkLevel::kNone) {
    distance = TileDistance(panel, walk, lane, s + lane, sums);
  }
  AddTile<kLevel>(panel, lane, delta, alpha, sums, distance);
  return alpha;
}

// All three vectors. Returns the factors α of the sums over earlier keys.
template <WalkLevel kLevel, bool kMasked, bool kPartial>
HWY_NOINLINE Row UpdatePanel(Panel& panel, const TileWalk& walk,
                             const Row& old_m, float* s, float* partial) {
  return {UpdateColumn<kLevel, kMasked, kPartial>(panel, walk, 0, old_m.x, s,
                                                  partial),
          UpdateColumn<kLevel, kMasked, kPartial>(panel, walk, kLanes, old_m.y,
                                                  s, partial),
          UpdateColumn<kLevel, kMasked, kPartial>(panel, walk, 2 * kLanes,
                                                  old_m.z, s, partial)};
}

template <WalkLevel kLevel>
HWY_INLINE Row UpdatePanel(Panel& panel, const TileWalk& walk, const Row& old_m,
                           bool masked, bool wants_partial, float* s,
                           float* partial) {
  if constexpr (kLevel >= WalkLevel::kKept) {
    if (wants_partial) {
      return masked ? UpdatePanel<kLevel, true, true>(panel, walk, old_m, s,
                                                      partial)
                    : UpdatePanel<kLevel, false, true>(panel, walk, old_m, s,
                                                       partial);
    }
  }
  return masked
             ? UpdatePanel<kLevel, true, false>(panel, walk, old_m, s, partial)
             : UpdatePanel<kLevel, false, false>(panel, walk, old_m, s,
                                                 partial);
}

// Notes l and m wherever the walk has crossed an edge between buckets.
// earlier_l: l before this tile, at the new maximum; partial: [keys,
// kTileColumns].
HWY_INLINE void CrossEdges(Panel& panel, const TileWalk& walk,
                           const float* earlier_l, const float* partial) {
  constexpr int64_t kColumns = kTileColumns;
  const int64_t keys = static_cast<int64_t>(walk.keys);
  panel.next_edge = INT64_MAX;
  for (int e = panel.open_edge; e < panel.end_edge; ++e) {
    // Keys of the tile before the edge: one more with each query, so that
    // queries cross it in their order.
    const int64_t first = panel.position + EdgeOffset(e) - walk.j;
    const int64_t crossed =
        std::clamp<int64_t>(keys - first + 1, 0, panel.queries);
    for (int64_t i = panel.crossed[e]; i < crossed; ++i) {
      const int64_t r = first + i;
      for (int64_t lane = i; lane < panel.count; lane += panel.queries) {
        const float here = r > 0 ? partial[(r - 1) * kColumns + lane] : 0.0f;
        panel.edge_l[e][lane] = earlier_l[lane] + here;
        panel.edge_m[e][lane] = panel.m[lane];
      }
    }
    panel.crossed[e] = static_cast<int32_t>(crossed);
    if (crossed < panel.queries) {
      panel.next_edge = std::min(panel.next_edge, walk.j + first + crossed);
    } else if (e == panel.open_edge) {
      ++panel.open_edge;
    }
    if (crossed == 0) break;
  }
}

// Adds the mass on keys whose label equals the query's. e: [keys,
// kTileColumns]; labels: of the tile's keys, `stride` apart.
HWY_INLINE void AddLabelMass(const float* HWY_RESTRICT e, size_t keys,
                             const int32_t* labels, int64_t stride,
                             const PerLane<int32_t>& own, const Row& alpha,
                             PerLane<float>& mass) {
  const F32 d;
  const I32 di;
  Row sum = ZeroRow();
  const auto wanted_x = hn::LoadU(di, own);
  const auto wanted_y = hn::LoadU(di, own + kLanes);
  const auto wanted_z = hn::LoadU(di, own + 2 * kLanes);
  for (size_t r = 0; r < keys; ++r) {
    const int32_t label = labels[static_cast<int64_t>(r) * stride];
    if (label == -1) continue;
    const auto key = hn::Set(di, label);
    const Row row = LoadRow(e + r * kTileColumns);
    const auto part = [&](VF value, auto wanted) HWY_ATTR {
      return hn::IfThenElseZero(hn::RebindMask(d, hn::Eq(key, wanted)), value);
    };
    sum.x = hn::Add(sum.x, part(row.x, wanted_x));
    sum.y = hn::Add(sum.y, part(row.y, wanted_y));
    sum.z = hn::Add(sum.z, part(row.z, wanted_z));
  }
  const Row old = Scaled(LoadRow(mass), alpha);
  StoreRow(
      {hn::Add(old.x, sum.x), hn::Add(old.y, sum.y), hn::Add(old.z, sum.z)},
      mass);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_OPS_ATTENTION_CPU_SOFTMAX_INL_H_
