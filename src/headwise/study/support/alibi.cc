// ALiBi through queries and keys. Door: alibi.h.
#include "headwise/study/support/alibi.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace headwise {
namespace {

// A view [1, T, H, D], its rows one after another.
std::vector<float> Rows(const ConstTensorView& from) {
  const int64_t rows = from.shape[1], heads = from.shape[2];
  const int64_t dim = from.shape[3];
  std::vector<float> copy(rows * heads * dim);
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      std::copy_n(from.As<float>() + t * from.stride[1] + h * from.stride[2],
                  dim, copy.data() + (t * heads + h) * dim);
    }
  }
  return copy;
}

void ClearLast(const TensorView& of) {
  const int64_t last = of.shape[3] - 1;
  for (int64_t t = 0; t < of.shape[1]; ++t) {
    for (int64_t h = 0; h < of.shape[2]; ++h) {
      of.As<float>()[t * of.stride[1] + h * of.stride[2] + last] = 0;
    }
  }
}

}  // namespace

double AlibiSlope(int64_t head, int64_t heads) {
  return std::exp2(-8.0 * static_cast<double>(head + 1) /
                   static_cast<double>(heads));
}

void AlibiBias::BeforeAttention(const AttentionSite& site,
                                const AttentionProblem& problem,
                                AttentionArgs& args) {
  const int64_t heads = problem.heads, dim = problem.head_dim;
  const double scale = problem.scale != 0
                           ? problem.scale
                           : 1 / std::sqrt(static_cast<double>(dim));
  Copies& copies = layers_[site.layer];
  copies = {Rows(args.q), Rows(args.k)};
  const int32_t* starts = args.key_starts.As<int32_t>();
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (int64_t t = starts[b]; t < starts[b + 1]; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t last = (t * heads + h) * dim + dim - 1;
        copies.q[last] = static_cast<float>(AlibiSlope(h, heads) / scale);
        copies.k[last] = static_cast<float>(t - starts[b]);
      }
    }
  }
  const int64_t rows = args.q.shape[1];
  args.q = View(std::as_const(copies.q).data(), {1, rows, heads, dim});
  args.k = View(std::as_const(copies.k).data(), {1, rows, heads, dim});
}

void AlibiBias::AfterAttentionBackward(const AttentionSite& /*site*/,
                                       const AttentionProblem& /*problem*/,
                                       const AttentionArgs& /*args*/,
                                       const AttentionGrads& grads) {
  ClearLast(grads.dq);
  ClearLast(grads.dk);
}

}  // namespace headwise
