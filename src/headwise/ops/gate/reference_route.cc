// A mixture's router by its formulas, in double. Door: reference_route.h.
#include "headwise/ops/gate/reference_route.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "headwise/tensor/element.h"

namespace headwise {
namespace {

// Which softmaxes stand side by side in a token's routes.
struct Part {
  int64_t begin;
  int64_t count;
};

std::vector<Part> PartsOf(const RouteCall& call) {
  const RouteSizes sizes = SizesOf(call);
  const int64_t shared = call.problem.shared;
  if (shared == 0) return {{0, sizes.routed}};
  return {{0, sizes.routed}, {sizes.routed, shared}, {sizes.heads, 2}};
}

// What the softmax of head h is multiplied with, and where it stands.
double FactorOf(const RouteCall& call, int64_t t, int64_t h) {
  const RouteSizes sizes = SizesOf(call);
  const int64_t shared = call.problem.shared;
  const int64_t kind = h < shared ? 0 : 1;
  const double count = static_cast<double>(kind == 0 ? shared : sizes.routed);
  if (shared == 0) return count;
  return 2 * Read(call.args.routes, t, sizes.heads + kind) * count;
}

int64_t PlaceOf(const RouteCall& call, int64_t h) {
  const int64_t shared = call.problem.shared;
  return h < shared ? SizesOf(call).routed + h : h - shared;
}

void Softmaxes(const RouteCall& call, int64_t t) {
  const TensorView& routes = call.args.routes;
  for (const Part part : PartsOf(call)) {
    std::vector<double> values;
    double most = Read(routes, t, part.begin), sum = 0;
    for (int64_t i = 0; i < part.count; ++i) {
      most = std::max(most, Read(routes, t, part.begin + i));
    }
    for (int64_t i = 0; i < part.count; ++i) {
      values.push_back(std::exp(Read(routes, t, part.begin + i) - most));
      sum += values.back();
    }
    for (int64_t i = 0; i < part.count; ++i) {
      Write(routes, values[i] / sum, t, part.begin + i);
    }
  }
}

// Whether fewer than the top are likelier than routed head i.
bool IsAtTheTop(const RouteCall& call, int64_t t, int64_t i) {
  const double own = Read(call.args.routes, t, i);
  int64_t before = 0;
  for (int64_t j = 0; j < SizesOf(call).routed; ++j) {
    const double other = Read(call.args.routes, t, j);
    if (other > own || (other == own && j < i)) ++before;
  }
  return before < call.problem.active - call.problem.shared;
}

void Forward(const RouteCall& call) {
  const RouteSizes sizes = SizesOf(call);
  const int64_t shared = call.problem.shared;
  const double n = static_cast<double>(sizes.tokens);
  for (int64_t i = 0; i < sizes.routed; ++i) {
    Write(call.args.chosen, 0, i);
    Write(call.args.mean, 0, i);
  }
  for (int64_t t = 0; t < sizes.tokens; ++t) {
    Softmaxes(call, t);
    for (int64_t h = 0; h < sizes.heads; ++h) {
      const int64_t i = h - shared;
      const double p = Read(call.args.routes, t, PlaceOf(call, h));
      const bool used = h < shared || IsAtTheTop(call, t, i);
      Write(call.args.gates, used ? FactorOf(call, t, h) * p : 0, t, h);
      if (h < shared) continue;
      const TensorView& chosen = call.args.chosen;
      if (used) Write(chosen, Read(chosen, i) + 1 / n, i);
      if (!call.args.mean) continue;
      Write(call.args.mean, Read(call.args.mean, i) + p / n, i);
    }
  }
}

void Backward(const RouteCall& call) {
  const RouteSizes sizes = SizesOf(call);
  const int64_t shared = call.problem.shared;
  const double n = static_cast<double>(sizes.tokens);
  for (int64_t t = 0; t < sizes.tokens; ++t) {
    // By the softmaxes.
    std::vector<double> d(sizes.width);
    for (int64_t h = 0; h < sizes.heads; ++h) {
      const double dgate = Read(call.grads->dgates, t, h);
      const double gate = Read(call.args.gates, t, h);
      const int64_t place = PlaceOf(call, h);
      if (h < shared || gate > 0) d[place] = FactorOf(call, t, h) * dgate;
      if (h >= shared) {
        d[place] += call.grads->balance / n * Read(call.args.chosen, place);
      }
      if (shared == 0) continue;
      const int64_t kind = sizes.heads + (h < shared ? 0 : 1);
      d[kind] += dgate * gate / Read(call.args.routes, t, kind);
    }
    // By their logits.
    for (const Part part : PartsOf(call)) {
      double mean = 0;
      for (int64_t i = part.begin; i < part.begin + part.count; ++i) {
        mean += Read(call.args.routes, t, i) * d[i];
      }
      for (int64_t i = part.begin; i < part.begin + part.count; ++i) {
        Write(call.grads->dlogits, Read(call.args.routes, t, i) * (d[i] - mean),
              t, i);
      }
    }
  }
}

}  // namespace

void RouteByReference(const RouteCall& call) {
  call.grads == nullptr ? Forward(call) : Backward(call);
}

}  // namespace headwise
