// Random attention problems with all their tensors, for tests of cpu.f32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/implementation.h"

namespace headwise {

struct RandomCase {
  AttentionProblem problem;
  AttentionArgs args;
  std::mt19937 engine;
  std::vector<Tensor> tensors;
  std::vector<int32_t> heads;

  int64_t Pick(std::initializer_list<int64_t> values) {
    return *(values.begin() + engine() % values.size());
  }
  TensorView Make(std::initializer_list<int64_t> shape, float size) {
    std::normal_distribution<float> normal(0, size);
    tensors.emplace_back(DType::kF32, shape);
    float* x = tensors.back().As<float>();
    for (int64_t i = 0; i < tensors.back().size(); ++i) x[i] = normal(engine);
    return tensors.back().view();
  }
  TensorView MakeInts(const std::vector<int32_t>& values) {
    tensors.emplace_back(DType::kI32, std::initializer_list<int64_t>{
                                          static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), tensors.back().As<int32_t>());
    return tensors.back().view();
  }

  explicit RandomCase(uint32_t seed, int64_t longest = 70) : engine(seed) {
    AttentionProblem& p = problem;
    p.batch = Pick({1, 2, 3});
    p.kv_heads = Pick({1, 2});
    p.heads = p.kv_heads * Pick({1, 2, 4});
    p.query_len = 1 + static_cast<int64_t>(engine() % longest);
    p.key_len = Pick({0, 1}) ? p.query_len
                             : 1 + static_cast<int64_t>(engine() % longest);
    p.head_dim = Pick({1, 4, 8, 13, 48, 64, 80});
    p.value_dim = Pick({0, 0, 5, 24, 64});
    p.packed = Pick({0, 0, 0, 1});
    switch (Pick({0, 1, 2, 3, 4})) {
      case 0:
        break;
      case 1:
        p.mask = AttentionMask::Causal();
        break;
      case 2:
        p.mask = AttentionMask::Causal(Pick({-3, 2, 20}));
        break;
      case 3:
        p.mask = AttentionMask::SlidingWindow(1 + Pick({0, 3, 16}),
                                              Pick({0, 5}), Pick({0, 2, 9}));
        break;
      default:
        p.mask = {Pick({3, 20}), Pick({0, 4}), Pick({-2, 0, 4}), 1};
    }
    p.bias = static_cast<AttentionBias>(Pick({0, 0, 1, 2}));
    p.relative_reach =
        p.bias == AttentionBias::kRelative ? Pick({1, 7, 90}) : 0;
    p.soft_cap = Pick({0, 0, 5});
    Fill();
  }

  void Fill() {
    const AttentionProblem& p = problem;
    int64_t b = p.batch, m = p.query_len, n = p.key_len;
    if (p.packed) {
      std::vector<int32_t> q{0}, k{0};
      for (int64_t s = 0; s < p.batch; ++s) {
        q.push_back(q.back() + (s == 0 ? m : engine() % (m + 1)));
        k.push_back(k.back() + (s == 0 ? n : engine() % (n + 1)));
      }
      args.query_starts = MakeInts(q);
      args.key_starts = MakeInts(k);
      b = 1;
      m = q.back();
      n = k.back();
    } else if (Pick({0, 1})) {
      std::vector<int32_t> q, k, offsets;
      for (int64_t s = 0; s < p.batch; ++s) {
        q.push_back(engine() % (m + 1));
        k.push_back(engine() % (n + 1));
        offsets.push_back(engine() % 9);
      }
      args.query_lengths = MakeInts(q);
      args.key_lengths = MakeInts(k);
      if (Pick({0, 1})) args.query_offsets = MakeInts(offsets);
    }
    const int64_t e = p.value_dim == 0 ? p.head_dim : p.value_dim;
    args.q = Make({b, m, p.heads, p.head_dim}, 1.5f);
    args.k = Make({b, n, p.kv_heads, p.head_dim}, 1.5f);
    args.v = Make({b, n, p.kv_heads, e}, 1.0f);
    args.out = Make({b, m, p.heads, e}, 0.0f);
    args.lse = Make({b, p.heads, m}, 0.0f);
    if (p.bias == AttentionBias::kAlibi)
      args.alibi_slopes = Make({p.heads}, .2f);
    if (p.bias == AttentionBias::kRelative) {
      args.relative_table = Make({p.heads, 2 * p.relative_reach + 1}, 1.0f);
    }
    if (Pick({0, 1})) {
      args.gates = Make({b, m, p.heads}, 1.0f);
      args.ungated = Make({b, m, p.heads, e}, 0.0f);
      if (Pick({0, 1})) args.replacement = Make({b, m, p.heads, e}, 1.0f);
    }
    if (p.heads > 1 && Pick({0, 0, 1})) {
      for (int64_t h = 0; h < p.heads; ++h) {
        if (engine() % 2) heads.push_back(h);
      }
      args.active_heads = heads;
    }
  }
};

}  // namespace headwise
