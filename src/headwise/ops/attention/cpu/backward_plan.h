// The backward's work split: plain numbers, no vectors. Door: backward.h.
//
// A task owns a chunk of keys of one sequence and key/value head: it sums dk
// and dv over all queries and all heads of the group. dq is added to by the
// tasks of all chunks, each in its turn (turns.h), chunk by chunk ascending.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "headwise/attention.h"
#include "headwise/ops/attention/cpu/score_rule.h"
#include "headwise/ops/attention/cpu/views.h"
#include "headwise/ops/attention/geometry.h"

namespace headwise {

// Keys per chunk so that a chunk's packed keys, values and their gradients stay
// in half a megabyte of L2; whole panels at every vector width.
inline int64_t ChunkKeys(const AttentionProblem& problem) {
  constexpr int64_t kUnit = 96;
  constexpr int64_t kFloats = (512 << 10) / sizeof(float);
  const int64_t per_key = 3 * problem.head_dim + 2 * ValueDim(problem);
  const int64_t most = (problem.key_len + kUnit - 1) / kUnit;
  const int64_t units = std::min<int64_t>({kFloats / per_key / kUnit, most, 4});
  return std::max<int64_t>(units, 1) * kUnit;
}

struct BackwardTask {
  int64_t sequence = 0;
  int64_t kv_head = 0;
  int64_t chunk = 0;
  int32_t order = 0;  // tasks of the same kv_head that come before
};

// Chunks that a block of queries sees: [0, sinks) and [begin, end).
struct ChunkRange {
  int64_t sinks = 0;
  int64_t begin = 0;
  int64_t end = 0;

  bool contains(int64_t chunk) const {
    return chunk < sinks || (chunk >= begin && chunk < end);
  }
  // How many of them come before this one.
  int32_t Before(int64_t chunk) const {
    return static_cast<int32_t>(
        std::min(chunk, sinks) +
        std::max<int64_t>(0, std::min(chunk, end) - std::max(begin, sinks)));
  }
};

inline ChunkRange ChunksOf(const ScoreRule& rule, int64_t first, int64_t count,
                           int64_t chunk_keys) {
  const KeyRange from = rule.Visible(first);
  const KeyRange to = rule.Visible(first + count - 1);
  const auto up = [&](int64_t j) { return (j + chunk_keys - 1) / chunk_keys; };
  return {up(to.sinks), from.begin / chunk_keys, up(to.end)};
}

struct BackwardPlan {
  int64_t chunk_keys = 0;
  int64_t block_queries = 0;
  std::vector<int32_t> heads;        // active
  std::vector<BackwardTask> tasks;   // in the order in which they add
  std::vector<int64_t> first_block;  // per sequence, in blocks
  int64_t blocks = 0;                // of all sequences, for one head

  // The sum of dq that a block of a sequence and head is.
  size_t Sum(int64_t sequence, int64_t head, int64_t first) const {
    return head * blocks + first_block[sequence] + first / block_queries;
  }
};

// Chunks outside, so that neighbours in the order work on different sums and
// under a causal mask the longest tasks come first.
inline BackwardPlan MakePlan(const AttentionProblem& problem,
                             const AttentionArgs& args, int64_t block_queries) {
  BackwardPlan plan;
  plan.chunk_keys = ChunkKeys(problem);
  plan.block_queries = block_queries;
  plan.heads = ActiveHeads(problem, args);
  int64_t chunks = 0;
  for (int64_t b = 0; b < problem.batch; ++b) {
    const Sequence s = SequenceOf(problem, args, b);
    plan.first_block.push_back(plan.blocks);
    plan.blocks += (s.query_rows + block_queries - 1) / block_queries;
    chunks =
        std::max(chunks, (s.key_rows + plan.chunk_keys - 1) / plan.chunk_keys);
  }
  std::vector<int32_t> order(problem.kv_heads);
  for (int64_t c = 0; c < chunks; ++c) {
    for (int64_t b = 0; b < problem.batch; ++b) {
      if (c * plan.chunk_keys >= SequenceOf(problem, args, b).key_rows) {
        continue;
      }
      for (int64_t g = 0; g < problem.kv_heads; ++g) {
        plan.tasks.push_back({b, g, c, order[g]++});
      }
    }
  }
  return plan;
}

}  // namespace headwise
