// The router of a mixture on the CPU, token by token. Door: steps.h.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/gate/cpu/steps.h"

namespace headwise {
namespace {

constexpr int64_t kTokensRouted = 64;

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

// run(begin, end) for blocks of tokens.
template <typename Run>
void ForTokens(Context& context, int64_t tokens, const Run& run) {
  context.pool().ParallelFor(
      (tokens + kTokensRouted - 1) / kTokensRouted, [&](int64_t task, int) {
        run(task * kTokensRouted, std::min(tokens, (task + 1) * kTokensRouted));
      });
}

// One token's softmaxes and gates; the first of `order` are its top.
void Choose(const RouteCall& call, int64_t token, std::vector<int32_t>& order) {
  const RouteSizes sizes = SizesOf(call);
  const int64_t shared = call.problem.shared, others = sizes.routed;
  const int64_t top = call.problem.active - shared;
  float* p = call.args.routes.Raw<float>() + token * sizes.width;
  float* gates = call.args.gates.Raw<float>() + token * sizes.heads;
  Softmax(p, others);
  float routed_scale = static_cast<float>(others);
  if (shared > 0) {
    float* kinds = p + sizes.heads;
    Softmax(p + others, shared);
    Softmax(kinds, 2);
    routed_scale *= 2 * kinds[1];
    for (int64_t i = 0; i < shared; ++i) {
      gates[i] = 2 * kinds[0] * static_cast<float>(shared) * p[others + i];
    }
  }
  std::fill_n(gates + shared, others, 0.0f);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(
      order.begin(), order.begin() + top, order.end(),
      [&](int32_t a, int32_t b) { return p[a] != p[b] ? p[a] > p[b] : a < b; });
  for (int64_t k = 0; k < top; ++k) {
    gates[shared + order[k]] = routed_scale * p[order[k]];
  }
}

void Forward(Context& context, const RouteCall& call) {
  const RouteSizes sizes = SizesOf(call);
  const int64_t rows = sizes.tokens, others = sizes.routed;
  const int64_t top = call.problem.active - call.problem.shared;
  const Scratch memory = context.workspace().TakeArray<int32_t>(rows * top);
  int32_t* tops = memory.Raw<int32_t>();
  ForTokens(context, rows, [&](int64_t begin, int64_t end) {
    std::vector<int32_t> order(others);
    for (int64_t t = begin; t < end; ++t) {
      Choose(call, t, order);
      std::copy_n(order.begin(), top, tops + t * top);
    }
  });
  // In the order of tokens, so on one thread.
  double* chosen = call.args.chosen.Raw<double>();
  double* mean = call.args.mean.Raw<double>();
  std::fill_n(chosen, others, 0.0);
  if (mean != nullptr) std::fill_n(mean, others, 0.0);
  for (int64_t t = 0; t < rows; ++t) {
    const float* p = call.args.routes.Raw<float>() + t * sizes.width;
    for (int64_t k = 0; k < top; ++k) {
      chosen[tops[t * top + k]] += 1.0 / static_cast<double>(rows);
    }
    for (int64_t i = 0; mean != nullptr && i < others; ++i) {
      mean[i] += p[i] / static_cast<double>(rows);
    }
  }
}

void TokenBackward(const RouteCall& call, float balance, int64_t token) {
  const RouteSizes sizes = SizesOf(call);
  const int64_t shared = call.problem.shared, others = sizes.routed;
  const float* p = call.args.routes.Raw<float>() + token * sizes.width;
  const float* gates = call.args.gates.Raw<float>() + token * sizes.heads;
  const float* dgates = call.grads->dgates.Raw<float>() + token * sizes.heads;
  const double* chosen = call.args.chosen.Raw<double>();
  float* d = call.grads->dlogits.Raw<float>() + token * sizes.width;
  float routed_scale = static_cast<float>(others);
  if (shared > 0) {
    const float* kinds = p + sizes.heads;
    float* dkinds = d + sizes.heads;
    dkinds[0] = dkinds[1] = 0;
    routed_scale *= 2 * kinds[1];
    for (int64_t h = 0; h < sizes.heads; ++h) {
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
    const bool is_chosen = gates[shared + i] > 0;
    d[i] = (is_chosen ? routed_scale * dgates[shared + i] : 0.0f) +
           balance * static_cast<float>(chosen[i]);
  }
  SoftmaxBackward(p, others, d);
}

void Backward(Context& context, const RouteCall& call) {
  const int64_t tokens = SizesOf(call).tokens;
  const float balance = call.grads->balance / static_cast<float>(tokens);
  ForTokens(context, tokens, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) TokenBackward(call, balance, t);
  });
}

}  // namespace

void RunOnCpu(Context& context, const RouteCall& call) {
  call.grads == nullptr ? Forward(context, call) : Backward(context, call);
}

}  // namespace headwise
