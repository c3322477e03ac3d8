// The router of a mixture of heads, forward and backward (Jin et al. 2024):
//
//   shared head i   g = 2·α_0 · S · softmax(W_s x)_i
//   routed head i   g = 2·α_1 · R · softmax(W_r x)_i  if among the top, else 0
//   α = softmax(W_k x); without shared heads 2·α_1 is 1
//
// with S shared and R routed heads. The counts are ours: with them a router
// that knows nothing gives gates of 1, so that a mixture starts as attention
// does. Balance: Σ_i P_i f_i over the routed heads, P their mean probability
// and f the share of tokens that chose them. Door: head_gates.h.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/nn/head_gates.h"

namespace headwise {
namespace {

void Softmax(float* values, int64_t count) {
  const float most = *std::max_element(values, values + count);
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    values[i] = std::exp(values[i] - most);
    sum += values[i];
  }
  for (int64_t i = 0; i < count; ++i) values[i] /= sum;
}

// In place: by probabilities p, then by logits.
void SoftmaxBackward(const float* p, int64_t count, float* d) {
  float mean = 0;
  for (int64_t i = 0; i < count; ++i) mean += p[i] * d[i];
  for (int64_t i = 0; i < count; ++i) d[i] = p[i] * (d[i] - mean);
}

}  // namespace

void HeadGates::Route(Context& context, ConstTensorView x, const GateDraw& draw,
                      GateSaved& saved) const {
  const int64_t rows = x.shape[0], width = weights_.router.out();
  const int64_t shared = config_.shared, others = routed();
  const int64_t top = config_.active - shared;
  saved.routes = context.workspace().TakeArray<float>(rows * width);
  weights_.router.Forward(context, x,
                          View(saved.routes.As<float>(), {rows, width}));
  saved.chosen.assign(others, 0);
  std::vector<double> mean(others, 0);
  std::vector<int32_t> order(others);
  for (int64_t t = 0; t < rows; ++t) {
    float* p = saved.routes.As<float>() + t * width;
    float* gates = saved.own.As<float>() + t * heads_;
    Softmax(p, others);
    float routed_scale = static_cast<float>(others);
    if (shared > 0) {
      float* kinds = p + heads_;
      Softmax(p + others, shared);
      Softmax(kinds, 2);
      routed_scale *= 2 * kinds[1];
      for (int64_t i = 0; i < shared; ++i) {
        gates[i] = 2 * kinds[0] * static_cast<float>(shared) * p[others + i];
      }
    }
    std::fill_n(gates + shared, others, 0.0f);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + top, order.end(),
                      [&](int32_t a, int32_t b) {
                        return p[a] != p[b] ? p[a] > p[b] : a < b;
                      });
    for (int64_t k = 0; k < top; ++k) {
      gates[shared + order[k]] = routed_scale * p[order[k]];
      saved.chosen[order[k]] += 1.0 / static_cast<double>(rows);
    }
    for (int64_t i = 0; i < others; ++i) {
      mean[i] += p[i] / static_cast<double>(rows);
    }
  }
  if (draw.training == nullptr || draw.training->loss == nullptr) return;
  *draw.training->loss +=
      draw.training->balance *
      std::inner_product(mean.begin(), mean.end(), saved.chosen.begin(), 0.0);
}

void HeadGates::RouteBackward(Context& context, ConstTensorView x,
                              const GateDraw& draw, const GateSaved& saved,
                              const float* down, TensorView dx) const {
  const int64_t rows = x.shape[0], width = weights_.router.out();
  const int64_t shared = config_.shared, others = routed();
  const float balance = draw.training == nullptr
                            ? 0
                            : draw.training->balance / static_cast<float>(rows);
  const Scratch memory = context.workspace().TakeArray<float>(rows * width);
  for (int64_t t = 0; t < rows; ++t) {
    const float* p = saved.routes.As<float>() + t * width;
    const float* gates = saved.own.As<float>() + t * heads_;
    const float* dgates = down + t * heads_;
    float* d = memory.As<float>() + t * width;
    float routed_scale = static_cast<float>(others);
    if (shared > 0) {
      const float* kinds = p + heads_;
      float* dkinds = d + heads_;
      dkinds[0] = dkinds[1] = 0;
      routed_scale *= 2 * kinds[1];
      for (int64_t h = 0; h < heads_; ++h) {
        const int kind = h < shared ? 0 : 1;
        dkinds[kind] += dgates[h] * gates[h] / kinds[kind];
      }
      for (int64_t i = 0; i < shared; ++i) {
        d[others + i] = 2 * kinds[0] * static_cast<float>(shared) * dgates[i];
      }
      SoftmaxBackward(p + others, shared, d + others);
      SoftmaxBackward(kinds, 2, dkinds);
    }
    for (int64_t i = 0; i < others; ++i) {
      const bool chosen = gates[shared + i] > 0;
      d[i] = (chosen ? routed_scale * dgates[shared + i] : 0.0f) +
             balance * static_cast<float>(saved.chosen[i]);
    }
    SoftmaxBackward(p, others, d);
  }
  weights_.router.Backward(context, x, View(memory.As<float>(), {rows, width}),
                           dx, Store::kAccumulate);
}

}  // namespace headwise
