// For tests: attention layers of every kind, and what they give by the formula
// in f64.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/values_for_test.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/rope/rope.h"

namespace headwise::nn_test {

using Numbers = std::vector<double>;

inline constexpr int64_t kWidth = 5;
inline constexpr float kEpsilon = 1e-5f;

enum class Gate : uint8_t { kNone, kHead, kChannel };

struct Case {
  int64_t heads = 4, groups = 2, dim = 4, value = 4, window = 0;
  bool sinks = false, keys_are_values = false, normed = false, turned = false;
  bool hooked = false;    // gates of a hook on top
  bool concrete = false;  // gates that choose heads
  Gate gate = Gate::kNone;
  int64_t keys_of = -1;
  bool shares = false;
  bool biased = false;   // by relative positions in buckets
  bool centred = false;  // the norms of heads take the mean off, and add a bias
  bool sloped = false;   // scores fall with the distance (ALiBi)

  AttentionMask mask() const {
    return window > 0 ? AttentionMask::SlidingWindow(window)
                      : AttentionMask::Causal();
  }
};

inline Case CaseOf(uint64_t seed) {
  Rng rng(seed, 5);
  const auto coin = [&] { return rng.Below(2) == 0; };
  Case c;
  c.groups = rng.Between(1, 3);
  c.heads = c.groups * rng.Between(1, 2);
  c.dim = 2 * rng.Between(1, 4);
  c.keys_are_values = coin();
  c.value = c.keys_are_values || coin() ? c.dim : rng.Between(2, 7);
  c.window = coin() ? 0 : rng.Between(1, 4);
  c.sinks = coin();
  c.normed = coin();
  c.turned = coin();
  c.hooked = coin();
  c.concrete = coin();
  c.gate = static_cast<Gate>(rng.Below(3));
  c.biased = coin();
  // Of two numbers less their mean a norm leaves the sign alone.
  c.centred = coin() && c.dim > 2;
  c.sloped = !c.biased && coin();
  return c;
}

inline AttentionLayer MakeLayer(TestValues& values, const Case& c,
                                const std::string& name, int64_t layer = 0) {
  const int64_t q = c.heads * c.dim;
  std::vector<int64_t> outs = {q};
  if (c.keys_of < 0) outs.push_back(c.groups * c.dim);
  if (c.keys_of < 0 && !c.keys_are_values) outs.push_back(c.groups * c.value);
  AttentionWeights w;
  w.of_x = values.MakeLinear(name + ".qkv", outs, kWidth);
  w.output = values.MakeLinear(name + ".o", {kWidth}, c.heads * c.value);
  if (c.sinks) w.sinks = headwise::Values(values.Make(name + ".s", {c.heads}));
  if (c.gate != Gate::kNone) {
    const int64_t each = c.gate == Gate::kHead ? 1 : c.value;
    w.output_gate =
        OutputGate(values.MakeLinear(name + ".g", {c.heads * each}, kWidth));
  }
  const auto norm = [&](const std::string& which) {
    const Parameter weight = values.Make(name + which, {c.dim}, 1);
    if (!c.centred) return Norm(NormKind::kRms, kEpsilon, weight, {});
    return Norm(NormKind::kLayer, kEpsilon, weight,
                values.Make(name + which + "b", {c.dim}));
  };
  if (c.normed) w.query_norm = norm(".qn");
  if (c.normed && c.keys_of < 0) w.key_norm = norm(".kn");
  if (c.turned) {
    w.rope =
        std::make_shared<RopeTable>(RopeConfig{.head_dim = c.dim, .base = 50});
  }
  if (c.biased) {
    std::vector<int32_t> columns;  // of more than it has heads
    for (int64_t h = 0; h < c.heads; ++h) {
      columns.push_back(static_cast<int32_t>(c.heads - h));
    }
    w.bias = std::make_shared<RelativeBias>(
        RelativeBuckets{.count = 5, .max_distance = 4, .bidirectional = false},
        values.Make(name + ".b", {5, c.heads + 1}), columns);
  }
  if (c.sloped) {
    std::vector<int32_t> columns;  // of more than it has heads
    for (int64_t h = 0; h < c.heads; ++h) {
      columns.push_back(static_cast<int32_t>(c.heads - h));
    }
    w.alibi = AlibiSlopes(c.heads + 1, columns);
  }
  if (c.concrete) {
    w.gates = HeadGates(
        {.kind = GateKind::kHardConcrete},
        {.log_alpha = values.Make(name + ".a", {c.heads}), .router = {}},
        c.heads);
  }
  return {{.heads = c.heads,
           .kv_heads = c.groups,
           .head_dim = c.dim,
           .value_dim = c.value,
           .mask = c.mask(),
           .keys_are_values = c.keys_are_values,
           .keys_of = c.keys_of,
           .shares_keys = c.shares},
          std::move(w),
          {AttentionKind::kSelf, layer, name}};
}

// y [T, out] = x · Wᵀ + b of a layer of several parts.
inline Numbers Product(const Linear& linear, const Numbers& x) {
  const int64_t rows = std::ssize(x) / linear.in();
  Numbers y;
  for (int64_t t = 0; t < rows; ++t) {
    for (const Linear::Part& part : linear.parts()) {
      const auto* w = static_cast<const float*>(part.weight.value.data);
      const auto* b = static_cast<const float*>(part.bias.value.data);
      for (int64_t o = 0; o < part.weight.value.shape[0]; ++o) {
        double sum = b[o];
        for (int64_t i = 0; i < linear.in(); ++i) {
          sum += w[o * linear.in() + i] * x[t * linear.in() + i];
        }
        y.push_back(sum);
      }
    }
  }
  return y;
}

// Heads [T, heads, dim] of columns from `begin` on.
inline Numbers ColumnsOf(const Numbers& rows, int64_t width, int64_t begin,
                         int64_t count) {
  Numbers some;
  for (int64_t at = 0; at < std::ssize(rows); at += width) {
    some.insert(some.end(), rows.begin() + at + begin,
                rows.begin() + at + begin + count);
  }
  return some;
}

inline void NormAndTurn(const Case& c, const HeadNorms& norm, int64_t heads,
                        Numbers& x) {
  const auto frequencies =
      RopeFrequencies(RopeConfig{.head_dim = c.dim, .base = 50});
  for (int64_t i = 0; i < std::ssize(x) / c.dim; ++i) {
    double* head = x.data() + i * c.dim;
    if (norm) {
      double mean = 0;
      for (int64_t d = 0; c.centred && d < c.dim; ++d) {
        mean += head[d] / static_cast<double>(c.dim);
      }
      for (int64_t d = 0; d < c.dim; ++d) head[d] -= mean;
      double squares = 0;
      for (int64_t d = 0; d < c.dim; ++d) squares += head[d] * head[d];
      const double root =
          std::sqrt(squares / static_cast<double>(c.dim) + kEpsilon);
      const auto* gain = static_cast<const float*>(
          norm.norms()[0].weight_parameter().value.data);
      const auto* bias = static_cast<const float*>(
          norm.norms()[0].bias_parameter().value.data);
      for (int64_t d = 0; d < c.dim; ++d) {
        head[d] = head[d] * gain[d] / root + (c.centred ? bias[d] : 0);
      }
    }
    if (!c.turned) continue;
    for (int64_t d = 0; d < c.dim / 2; ++d) {
      const double angle = static_cast<double>(i / heads) * frequencies[d];
      double &a = head[d], &b = head[d + c.dim / 2];
      const double left = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = left;
    }
  }
}

// One sequence through a layer, as the formula says.
struct Formula {
  Numbers k, v;      // [T, G, D], [T, G, E]
  Numbers heads, y;  // [T, H, E] that W_O reads, [T, d]
};

inline Formula Calculate(const Case& c, const AttentionLayer& layer,
                         const Numbers& x, const Numbers& hook_gates,
                         const Formula* source = nullptr) {
  const AttentionWeights& w = layer.weights();
  const int64_t queries = c.heads * c.dim, keys = c.groups * c.dim;
  const int64_t rows = std::ssize(x) / kWidth, columns = w.of_x.out();
  const Numbers made = Product(w.of_x, x);
  Numbers q = ColumnsOf(made, columns, 0, queries);
  NormAndTurn(c, w.query_norm, c.heads, q);
  Formula f;
  if (source != nullptr) {
    f.k = source->k;
    f.v = source->v;
  } else {
    f.k = ColumnsOf(made, columns, queries, keys);
    f.v = c.keys_are_values
              ? f.k
              : ColumnsOf(made, columns, queries + keys, c.groups * c.value);
    NormAndTurn(c, w.key_norm, c.groups, f.k);
  }
  Numbers gate;
  if (w.output_gate) gate = Product(w.output_gate.projection(), x);
  for (double& g : gate) g = 1 / (1 + std::exp(-g));
  Context host({1, ""});
  const auto slopes = ToVector<float>(host, w.alibi.view(host));
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t group = h / (c.heads / c.groups);
      Numbers out(c.value);
      double sum = 0;
      if (w.sinks) {
        sum = std::exp(
            static_cast<const float*>(w.sinks.parameter().value.data)[h]);
      }
      const int64_t first =
          c.window > 0 ? std::max<int64_t>(0, t - c.window + 1) : 0;
      for (int64_t j = first; j <= t; ++j) {
        double score = 0;
        for (int64_t d = 0; d < c.dim; ++d) {
          score += q[(t * c.heads + h) * c.dim + d] *
                   f.k[(j * c.groups + group) * c.dim + d];
        }
        score /= std::sqrt(static_cast<double>(c.dim));
        if (c.biased) {
          const ConstTensorView& table = w.bias->table().value;
          score += table.Raw<float>()[BucketOf(w.bias->buckets(), j - t) *
                                          table.shape[1] +
                                      w.bias->columns()[h]];
        }
        if (c.sloped) score -= slopes[h] * static_cast<double>(t - j);
        const double p = std::exp(score);
        sum += p;
        for (int64_t e = 0; e < c.value; ++e) {
          out[e] += p * f.v[(j * c.groups + group) * c.value + e];
        }
      }
      double whole = hook_gates.empty() ? 1 : hook_gates[h];
      if (c.concrete) {
        whole *= ConcreteGate(static_cast<const float*>(
            w.gates.weights().log_alpha.value.data)[h]);
      }
      if (c.gate == Gate::kHead) whole *= gate[t * c.heads + h];
      for (int64_t e = 0; e < c.value; ++e) {
        const double own = c.gate == Gate::kChannel
                               ? gate[(t * c.heads + h) * c.value + e]
                               : 1;
        f.heads.push_back(out[e] / sum * whole * own);
      }
    }
  }
  f.y = Product(w.output, f.heads);
  return f;
}

inline Numbers Wide(const Tensor& tensor, int64_t begin, int64_t count) {
  const auto* from = tensor.As<float>() + begin;
  return {from, from + count};
}

template <typename Floats>
void ExpectNear(const Floats& found, const Numbers& expected) {
  ASSERT_EQ(std::ssize(found), std::ssize(expected));
  double scale = 1;
  for (const double one : expected) scale = std::max(scale, std::abs(one));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 2e-6 * scale) << i;
  }
}

}  // namespace headwise::nn_test
