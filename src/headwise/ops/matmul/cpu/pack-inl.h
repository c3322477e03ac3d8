// Packing: strided memory into the order in which register tiles read it.
// Included once per target; used by matmul and attention.

// clang-format off
#if defined(HEADWISE_OPS_MATMUL_CPU_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_OPS_MATMUL_CPU_PACK_INL_H_
#undef HEADWISE_OPS_MATMUL_CPU_PACK_INL_H_
#else
#define HEADWISE_OPS_MATMUL_CPU_PACK_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "headwise/ops/matmul/cpu/tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A matrix of lines (rows of A, columns of B, keys, queries) by depth.
struct Lines {
  const float* data = nullptr;
  int64_t line_stride = 0;
  int64_t depth_stride = 1;
};

#if HWY_TARGET != HWY_SCALAR
// Four lines of four numbers each, transposed and scaled.
HWY_INLINE void Transpose4x4(const float* HWY_RESTRICT from, int64_t stride,
                             float scale, float* HWY_RESTRICT to,
                             size_t to_stride) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<uint64_t, 2> wide;
  const auto s = hn::Set(d, scale);
  const auto a = hn::Mul(s, hn::LoadU(d, from));
  const auto b = hn::Mul(s, hn::LoadU(d, from + stride));
  const auto c = hn::Mul(s, hn::LoadU(d, from + 2 * stride));
  const auto e = hn::Mul(s, hn::LoadU(d, from + 3 * stride));
  // a0 b0 a1 b1 | c0 e0 c1 e1 | a2 b2 a3 b3 | c2 e2 c3 e3
  const auto ab = hn::BitCast(wide, hn::InterleaveLower(d, a, b));
  const auto ce = hn::BitCast(wide, hn::InterleaveLower(d, c, e));
  const auto ab2 = hn::BitCast(wide, hn::InterleaveUpper(d, a, b));
  const auto ce2 = hn::BitCast(wide, hn::InterleaveUpper(d, c, e));
  const auto store = [&](auto v, size_t p) HWY_ATTR {
    hn::StoreU(hn::BitCast(d, v), d, to + p * to_stride);
  };
  store(hn::InterleaveLower(wide, ab, ce), 0);
  store(hn::InterleaveUpper(wide, ab, ce), 1);
  store(hn::InterleaveLower(wide, ab2, ce2), 2);
  store(hn::InterleaveUpper(wide, ab2, ce2), 3);
}
#endif

// Lines that lie side by side (line_stride 1): a copy, row by row.
HWY_INLINE void PackSideBySide(const Lines& lines, size_t count, size_t depth,
                               size_t width, float scale,
                               float* HWY_RESTRICT to) {
  const F32 d;
  const VF s = hn::Set(d, scale);
  for (size_t p = 0; p < depth; ++p) {
    const float* HWY_RESTRICT from = lines.data + p * lines.depth_stride;
    float* HWY_RESTRICT row = to + p * width;
    size_t j = 0;
    for (; j + kLanes <= count; j += kLanes) {
      hn::StoreU(hn::Mul(s, hn::LoadU(d, from + j)), d, row + j);
    }
    for (; j < count; ++j) row[j] = scale * from[j];
    for (; j < width; ++j) row[j] = 0.0f;
  }
}

// One panel: to[p * width + i] = scale · lines[i, p] for i < count and
// p < depth, zero for count ≤ i < width.
HWY_INLINE void PackPanel(const Lines& lines, size_t count, size_t depth,
                          size_t width, float scale, float* HWY_RESTRICT to) {
  if (lines.line_stride == 1) {
    return PackSideBySide(lines, count, depth, width, scale, to);
  }
  size_t lines_done = 0;  // by the 4 × 4 blocks, for depths below depth_done
  size_t depth_done = 0;
#if HWY_TARGET != HWY_SCALAR
  if (lines.depth_stride == 1) {
    lines_done = count / 4 * 4;
    depth_done = depth / 4 * 4;
    // A cache line of four lines at a time: rows that lie a power of two apart
    // share a set of the first-level cache, which holds no more than four.
    constexpr size_t kLine = 64 / sizeof(float);
    for (size_t begin = 0; begin < depth_done; begin += kLine) {
      const size_t end = std::min(depth_done, begin + kLine);
      for (size_t i = 0; i < lines_done; i += 4) {
        const float* from = lines.data + i * lines.line_stride;
        for (size_t p = begin; p < end; p += 4) {
          Transpose4x4(from + p, lines.line_stride, scale, to + p * width + i,
                       width);
        }
      }
    }
  }
#endif
  for (size_t p = 0; p < depth; ++p) {
    const float* from = lines.data + p * lines.depth_stride;
    float* row = to + p * width;
    for (size_t i = p < depth_done ? lines_done : 0; i < count; ++i) {
      row[i] = scale * from[i * lines.line_stride];
    }
    std::fill(row + count, row + width, 0.0f);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_OPS_MATMUL_CPU_PACK_INL_H_
