// Register tiles: the innermost product of matmul and attention, for whatever
// vector width the enclosing file is compiled for (included once per target).
//
// A tile is kTileRows rows of three vectors, and one step adds the outer
// product of a column of A (kTileRows numbers) and a row of B (three vectors):
//
//              b: x         y         z          NEON     8 × 12
//   a[0] ─▶  [ r0.x ]   [ r0.y ]   [ r0.z ]      AVX2     4 × 24
//   a[1] ─▶  [ r1.x ]   [ r1.y ]   [ r1.z ]      AVX-512  8 × 48
//    ⋮
// 32 registers hold 24 sums, 3 of B and up to 5 of A; 16 hold 12, 3 and 1. At
// least FMA latency × throughput (4 × 4 on Neoverse V1, 4 × 2 on x86) sums are
// needed to keep the units busy. Sums are named members, never arrays: g++ 12
// spills arrays of vectors.
//
// Packed A is [depth][kTileRows], packed B is [depth][kTileColumns].

// clang-format off
#if defined(HEADWISE_OPS_MATMUL_CPU_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_OPS_MATMUL_CPU_TILE_INL_H_
#undef HEADWISE_OPS_MATMUL_CPU_TILE_INL_H_
#else
#define HEADWISE_OPS_MATMUL_CPU_TILE_INL_H_
#endif
// clang-format on

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VF = hn::Vec<F32>;

inline constexpr size_t kLanes = HWY_LANES(float);
inline constexpr size_t kTileColumns = 3 * kLanes;
#if HWY_TARGET == HWY_NEON || HWY_TARGET <= HWY_AVX3
inline constexpr size_t kTileRows = 8;  // 32 vector registers
#else
inline constexpr size_t kTileRows = 4;  // 16 vector registers
#endif
// Packs are padded to this many rows whatever the target.
inline constexpr size_t kHalfRows = 4;

// Three vectors side by side: a row of a tile, of B, or of row scales.
struct Row {
  VF x, y, z;
};
struct HalfTile {
  Row r0, r1, r2, r3;
};
// With kTileRows = 4 the lower half is never touched and costs nothing.
struct Tile {
  HalfTile upper, lower;
};

// Four sums side by side, of dot products with few rows.
struct Four {
  VF v0, v1, v2, v3;
};
HWY_INLINE Four ZeroFour() {
  const VF zero = hn::Zero(F32());
  return {zero, zero, zero, zero};
}
HWY_INLINE void AddFour(const Four& a, VF b, Four& sum) {
  sum.v0 = hn::MulAdd(a.v0, b, sum.v0);
  sum.v1 = hn::MulAdd(a.v1, b, sum.v1);
  sum.v2 = hn::MulAdd(a.v2, b, sum.v2);
  sum.v3 = hn::MulAdd(a.v3, b, sum.v3);
}
// Each vector's lanes added up, `step` apart.
HWY_INLINE void StoreSums(const Four& sum, float* HWY_RESTRICT to,
                          size_t step) {
  const F32 d;
  to[0] = hn::GetLane(hn::SumOfLanes(d, sum.v0));
  to[step] = hn::GetLane(hn::SumOfLanes(d, sum.v1));
  to[2 * step] = hn::GetLane(hn::SumOfLanes(d, sum.v2));
  to[3 * step] = hn::GetLane(hn::SumOfLanes(d, sum.v3));
}

HWY_INLINE Row ZeroRow() {
  const F32 d;
  return {hn::Zero(d), hn::Zero(d), hn::Zero(d)};
}
HWY_INLINE HalfTile ZeroHalf() {
  return {ZeroRow(), ZeroRow(), ZeroRow(), ZeroRow()};
}
HWY_INLINE Tile ZeroTile() { return {ZeroHalf(), ZeroHalf()}; }

HWY_INLINE Row LoadRow(const float* HWY_RESTRICT c) {
  const F32 d;
  return {hn::LoadU(d, c), hn::LoadU(d, c + kLanes),
          hn::LoadU(d, c + 2 * kLanes)};
}
HWY_INLINE void StoreRow(const Row& r, float* HWY_RESTRICT c) {
  const F32 d;
  hn::StoreU(r.x, d, c);
  hn::StoreU(r.y, d, c + kLanes);
  hn::StoreU(r.z, d, c + 2 * kLanes);
}
HWY_INLINE Row Scaled(const Row& r, const Row& by) {
  return {hn::Mul(r.x, by.x), hn::Mul(r.y, by.y), hn::Mul(r.z, by.z)};
}

// c: [kHalfRows, kTileColumns], rows `stride` apart.
HWY_INLINE HalfTile LoadHalf(const float* HWY_RESTRICT c, size_t stride) {
  return {LoadRow(c), LoadRow(c + stride), LoadRow(c + 2 * stride),
          LoadRow(c + 3 * stride)};
}
HWY_INLINE HalfTile Scaled(const HalfTile& t, const Row& by) {
  return {Scaled(t.r0, by), Scaled(t.r1, by), Scaled(t.r2, by),
          Scaled(t.r3, by)};
}
HWY_INLINE void StoreHalf(const HalfTile& t, float* HWY_RESTRICT c,
                          size_t stride) {
  StoreRow(t.r0, c);
  StoreRow(t.r1, c + stride);
  StoreRow(t.r2, c + 2 * stride);
  StoreRow(t.r3, c + 3 * stride);
}

// c: [kTileRows, kTileColumns], rows `stride` apart.
HWY_INLINE Tile LoadTile(const float* HWY_RESTRICT c, size_t stride) {
  if constexpr (kTileRows == 8) {
    return {LoadHalf(c, stride), LoadHalf(c + 4 * stride, stride)};
  } else {
    return {LoadHalf(c, stride), ZeroHalf()};
  }
}
// Column j of the tile times factor j.
HWY_INLINE Tile Scaled(const Tile& t, const Row& by) {
  if constexpr (kTileRows == 8) {
    return {Scaled(t.upper, by), Scaled(t.lower, by)};
  } else {
    return {Scaled(t.upper, by), ZeroHalf()};
  }
}
HWY_INLINE void StoreTile(const Tile& t, float* HWY_RESTRICT c, size_t stride) {
  StoreHalf(t.upper, c, stride);
  if constexpr (kTileRows == 8) StoreHalf(t.lower, c + 4 * stride, stride);
}

#if HWY_TARGET == HWY_NEON
// Multiplies by one lane, so that one load serves four rows. (A load that
// repeats one number costs a slot of the FMA units here.)
template <int kLane>
HWY_INLINE void AddLane(Row& r, const Row& b, VF a) {
  r.x.raw = vfmaq_laneq_f32(r.x.raw, b.x.raw, a.raw, kLane);
  r.y.raw = vfmaq_laneq_f32(r.y.raw, b.y.raw, a.raw, kLane);
  r.z.raw = vfmaq_laneq_f32(r.z.raw, b.z.raw, a.raw, kLane);
}
HWY_INLINE void AddOuter(HalfTile& t, const float* HWY_RESTRICT a,
                         const Row& b) {
  const VF four = hn::LoadU(F32(), a);
  AddLane<0>(t.r0, b, four);
  AddLane<1>(t.r1, b, four);
  AddLane<2>(t.r2, b, four);
  AddLane<3>(t.r3, b, four);
}
HWY_INLINE void AddOuter(Four& t, const float* HWY_RESTRICT a, VF b) {
  const VF four = hn::LoadU(F32(), a);
  t.v0.raw = vfmaq_laneq_f32(t.v0.raw, b.raw, four.raw, 0);
  t.v1.raw = vfmaq_laneq_f32(t.v1.raw, b.raw, four.raw, 1);
  t.v2.raw = vfmaq_laneq_f32(t.v2.raw, b.raw, four.raw, 2);
  t.v3.raw = vfmaq_laneq_f32(t.v3.raw, b.raw, four.raw, 3);
}
#else
HWY_INLINE void AddOne(Row& r, const Row& b, float a) {
  const VF all = hn::Set(F32(), a);
  r.x = hn::MulAdd(all, b.x, r.x);
  r.y = hn::MulAdd(all, b.y, r.y);
  r.z = hn::MulAdd(all, b.z, r.z);
}
HWY_INLINE void AddOuter(HalfTile& t, const float* HWY_RESTRICT a,
                         const Row& b) {
  AddOne(t.r0, b, a[0]);
  AddOne(t.r1, b, a[1]);
  AddOne(t.r2, b, a[2]);
  AddOne(t.r3, b, a[3]);
}
HWY_INLINE void AddOuter(Four& t, const float* HWY_RESTRICT a, VF b) {
  const F32 d;
  t.v0 = hn::MulAdd(hn::Set(d, a[0]), b, t.v0);
  t.v1 = hn::MulAdd(hn::Set(d, a[1]), b, t.v1);
  t.v2 = hn::MulAdd(hn::Set(d, a[2]), b, t.v2);
  t.v3 = hn::MulAdd(hn::Set(d, a[3]), b, t.v3);
}
#endif

// t += Aᵀ·B over `depth` steps. a: [depth, kTileRows], b: [depth,
// kTileColumns]. Unrolled twice: g++ reaches 97 % of peak so (91 % without),
// and four times is slower again.
HWY_INLINE void AddProduct(Tile& t, const float* HWY_RESTRICT a,
                           const float* HWY_RESTRICT b, size_t depth) {
#pragma GCC unroll 2
  for (size_t p = 0; p < depth; ++p) {
    const Row row = LoadRow(b + p * kTileColumns);
    AddOuter(t.upper, a + p * kTileRows, row);
    if constexpr (kTileRows == 8) {
      AddOuter(t.lower, a + p * kTileRows + 4, row);
    }
  }
}

// One vector of a tile's columns. a: [depth, kTileRows], b: [depth,
// kTileColumns] from that vector on; sums: [kTileRows, kTileColumns] likewise.
// A last panel of which a third is used takes a third of the time on x86 (eight
// sums keep its units busy), two thirds on NEON.
HWY_INLINE void AddNarrow(const float* HWY_RESTRICT a,
                          const float* HWY_RESTRICT b, size_t depth,
                          float* HWY_RESTRICT sums) {
  const F32 d;
  Four upper = ZeroFour(), lower = upper;
  for (size_t p = 0; p < depth; ++p) {
    const VF column = hn::LoadU(d, b + p * kTileColumns);
    AddOuter(upper, a + p * kTileRows, column);
    if constexpr (kTileRows == 8) {
      AddOuter(lower, a + p * kTileRows + 4, column);
    }
  }
  const auto store = [&](const Four& t, float* to) HWY_ATTR {
    hn::StoreU(t.v0, d, to);
    hn::StoreU(t.v1, d, to + kTileColumns);
    hn::StoreU(t.v2, d, to + 2 * kTileColumns);
    hn::StoreU(t.v3, d, to + 3 * kTileColumns);
  };
  store(upper, sums);
  if constexpr (kTileRows == 8) store(lower, sums + 4 * kTileColumns);
}

// As AddProduct with four rows: a: [depth, a_step ≥ 4].
HWY_INLINE void AddProduct(HalfTile& t, const float* HWY_RESTRICT a,
                           size_t a_step, const float* HWY_RESTRICT b,
                           size_t depth) {
#pragma GCC unroll 2
  for (size_t p = 0; p < depth; ++p) {
    AddOuter(t, a + p * a_step, LoadRow(b + p * kTileColumns));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_OPS_MATMUL_CPU_TILE_INL_H_
