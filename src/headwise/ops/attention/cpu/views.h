// Small helpers over the views of a call: which heads run, where a row lies.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <numeric>
#include <span>
#include <vector>

#include "headwise/attention.h"

namespace headwise {

// The heads to compute, ascending.
inline std::vector<int32_t> ActiveHeads(const AttentionProblem& problem,
                                        const AttentionArgs& args) {
  if (!args.active_heads.is_all()) {
    const std::span<const int32_t> listed = args.active_heads.heads();
    return {listed.begin(), listed.end()};
  }
  std::vector<int32_t> heads(problem.heads);
  std::iota(heads.begin(), heads.end(), 0);
  return heads;
}

// The same in memory of the call's.
inline std::pmr::vector<int32_t> ActiveHeads(
    const AttentionProblem& problem, const AttentionArgs& args,
    std::pmr::memory_resource* memory) {
  if (!args.active_heads.is_all()) {
    const std::span<const int32_t> listed = args.active_heads.heads();
    return {listed.begin(), listed.end(), memory};
  }
  std::pmr::vector<int32_t> heads(problem.heads, memory);
  std::iota(heads.begin(), heads.end(), 0);
  return heads;
}

// Element (a, b, c, 0) or (a, b, c) of an f32 view.
template <typename Void>
auto At(const BasicView<Void>& x, int64_t a, int64_t b, int64_t c) {
  return x.template Raw<float>() + a * x.stride[0] + b * x.stride[1] +
         c * x.stride[2];
}

}  // namespace headwise
