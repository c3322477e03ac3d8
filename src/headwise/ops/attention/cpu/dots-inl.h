// Dot products of a few queries with rows of keys where they lie, unpacked.
// Included once per target; used where packing would cost more than the
// products: few queries (decode.cc) and bands (second_pass_band.cc).

// clang-format off
#if defined(HEADWISE_OPS_ATTENTION_CPU_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_OPS_ATTENTION_CPU_DOTS_INL_H_
#undef HEADWISE_OPS_ATTENTION_CPU_DOTS_INL_H_
#else
#define HEADWISE_OPS_ATTENTION_CPU_DOTS_INL_H_
#endif
// clang-format on

#include <cstddef>
#include <cstdint>

#include "headwise/ops/matmul/cpu/tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of the caller's keys, values or features, `stride` apart.
struct Rows {
  const float* data = nullptr;
  int64_t stride = 0;

  const float* at(int64_t row) const { return data + row * stride; }
};

// Where products go: that of key r and query i is at
// r · of_key + i · of_query.
struct DotSteps {
  size_t of_key = 1;
  size_t of_query = 1;
};

// kQueries (1 or 4) queries q [kQueries, dim] with four keys: each key is read
// once for all of them.
template <int kQueries>
HWY_INLINE void ScoreFourKeys(const Rows& k, int64_t key,
                              const float* HWY_RESTRICT q, size_t dim,
                              const DotSteps& step, float* HWY_RESTRICT s) {
  const F32 d;
  const float* HWY_RESTRICT k0 = k.at(key);
  const float* HWY_RESTRICT k1 = k.at(key + 1);
  const float* HWY_RESTRICT k2 = k.at(key + 2);
  const float* HWY_RESTRICT k3 = k.at(key + 3);
  Four a = ZeroFour(), b = a, c = a, e = a;
  size_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    const Four keys = {hn::LoadU(d, k0 + i), hn::LoadU(d, k1 + i),
                       hn::LoadU(d, k2 + i), hn::LoadU(d, k3 + i)};
    AddFour(keys, hn::LoadU(d, q + i), a);
    if constexpr (kQueries == 4) {
      AddFour(keys, hn::LoadU(d, q + dim + i), b);
      AddFour(keys, hn::LoadU(d, q + 2 * dim + i), c);
      AddFour(keys, hn::LoadU(d, q + 3 * dim + i), e);
    }
  }
  StoreSums(a, s, step.of_key);
  if constexpr (kQueries == 4) {
    StoreSums(b, s + step.of_query, step.of_key);
    StoreSums(c, s + 2 * step.of_query, step.of_key);
    StoreSums(e, s + 3 * step.of_query, step.of_key);
  }
  for (; i < dim; ++i) {
    for (size_t lane = 0; lane < kQueries; ++lane) {
      const float x = q[lane * dim + i];
      float* to = s + lane * step.of_query;
      to[0] += x * k0[i];
      to[step.of_key] += x * k1[i];
      to[2 * step.of_key] += x * k2[i];
      to[3 * step.of_key] += x * k3[i];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_OPS_ATTENTION_CPU_DOTS_INL_H_
