// Compiled once for every instruction set. Door: softmax.h.
#include "bench/softmax.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/softmax.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace headwise::bench {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void Softmax(float* row, int64_t visible, int64_t length) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // Rows are padded to `length`: what lies between the last visible key and
  // the end of its vector is set so that it takes no part.
  int64_t end = visible;
  for (; end % lanes != 0 && end < length; ++end) row[end] = -1e30f;
  const int64_t vectors = end - end % lanes;
  auto top = hn::Set(d, -1e30f);
  for (int64_t j = 0; j < vectors; j += lanes) {
    top = hn::Max(top, hn::LoadU(d, row + j));
  }
  float maximum = hn::GetLane(hn::MaxOfLanes(d, top));
  for (int64_t j = vectors; j < end; ++j) {
    maximum = row[j] > maximum ? row[j] : maximum;
  }
  const auto shift = hn::Set(d, maximum);
  // Four at a time: one exponential is a long chain of dependent steps.
  auto sums = hn::Zero(d), more = sums;
  int64_t j = 0;
  for (; j + 4 * lanes <= vectors; j += 4 * lanes) {
    float* at = row + j;
    const auto a = hn::Exp(d, hn::Sub(hn::LoadU(d, at), shift));
    const auto b = hn::Exp(d, hn::Sub(hn::LoadU(d, at + lanes), shift));
    const auto c = hn::Exp(d, hn::Sub(hn::LoadU(d, at + 2 * lanes), shift));
    const auto e = hn::Exp(d, hn::Sub(hn::LoadU(d, at + 3 * lanes), shift));
    hn::StoreU(a, d, at);
    hn::StoreU(b, d, at + lanes);
    hn::StoreU(c, d, at + 2 * lanes);
    hn::StoreU(e, d, at + 3 * lanes);
    sums = hn::Add(sums, hn::Add(a, b));
    more = hn::Add(more, hn::Add(c, e));
  }
  for (; j < vectors; j += lanes) {
    const auto e = hn::Exp(d, hn::Sub(hn::LoadU(d, row + j), shift));
    hn::StoreU(e, d, row + j);
    sums = hn::Add(sums, e);
  }
  sums = hn::Add(sums, more);
  float sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; j < end; ++j) {
    row[j] = hn::GetLane(hn::Exp(d, hn::Set(d, row[j] - maximum)));
    sum += row[j];
  }
  const auto inverse = hn::Set(d, 1 / sum);
  for (j = 0; j < vectors; j += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + j), inverse), d, row + j);
  }
  for (; j < end; ++j) row[j] /= sum;
  for (; j < length; ++j) row[j] = 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::bench {

HWY_EXPORT(Softmax);

void SoftmaxRow(float* row, int64_t visible, int64_t length) {
  HWY_DYNAMIC_DISPATCH(Softmax)(row, visible, length);
}

}  // namespace headwise::bench
#endif
