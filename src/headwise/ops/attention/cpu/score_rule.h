// How the raw products q·k of one sequence and head become log2 probabilities,
// and which keys a query sees: plain numbers that the vector code reads
// (score-inl.h applies them).
#pragma once

#include <algorithm>
#include <cstdint>

#include "headwise/attention.h"
#include "headwise/ops/attention/geometry.h"

namespace headwise {

inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.69314718055994530942f;

// A query sees keys [0, sinks) and [begin, end); sinks < begin or sinks = 0.
struct KeyRange {
  int64_t sinks = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct ScoreRule {
  Sequence sequence;
  AttentionMask mask;
  float factor = 1;  // queries are multiplied by it before the product
  float cap = 0;     // soft cap · log2e; 0: none
  AttentionBias bias = AttentionBias::kNone;
  float slope = 0;               // ALiBi: slope · log2e
  const float* table = nullptr;  // relative: [2R + 1] of this head
  int64_t reach = 0;             // R

  // No bias and no cap: a product is the score.
  bool plain() const { return cap == 0 && bias == AttentionBias::kNone; }

  KeyRange Visible(int64_t i) const {
    const int64_t p = i + sequence.offset;
    KeyRange range;
    range.end = mask.after >= sequence.keys - p
                    ? sequence.keys
                    : std::clamp<int64_t>(p + mask.after + 1, 0, sequence.keys);
    range.begin = mask.before >= p ? 0 : std::min(p - mask.before, range.end);
    range.sinks = std::min(mask.sinks, range.end);
    if (range.sinks >= range.begin) range.begin = range.sinks = 0;
    return range;
  }

  // Whether queries [i, i_end) all see all keys [j, j_end). Both ends of the
  // band only move forward with the query.
  bool SeesAll(int64_t i, int64_t i_end, int64_t j, int64_t j_end) const {
    const KeyRange last = Visible(i_end - 1);
    return Visible(i).end >= j_end && (last.begin <= j || last.sinks >= j_end);
  }
};

// A range of queries that contains all of [i, i_end) that see a key of
// [j, j_end).
struct QueryRange {
  int64_t begin = 0;
  int64_t end = 0;
  bool empty() const { return begin >= end; }
};
inline QueryRange QueriesSeeing(const ScoreRule& rule, QueryRange queries,
                                int64_t j, int64_t j_end) {
  const AttentionMask& mask = rule.mask;
  const int64_t offset = rule.sequence.offset;
  // p + after ≥ j, and p − before < j_end unless sinks are among the keys.
  if (mask.after < j - offset - queries.begin) {
    queries.begin = j - offset - mask.after;
  }
  if (j >= mask.sinks && mask.before < queries.end + offset - j_end) {
    queries.end = j_end + mask.before - offset;
  }
  if (j >= rule.sequence.keys) queries.end = queries.begin;
  return queries;
}

// The rule of head h in a sequence. Host views only.
inline ScoreRule RuleOf(const AttentionProblem& problem,
                        const AttentionArgs& args, const Sequence& sequence,
                        int64_t head) {
  ScoreRule rule;
  rule.sequence = sequence;
  rule.mask = problem.mask;
  const float scale = static_cast<float>(Scale(problem));
  rule.factor = scale * kLog2E;
  if (problem.soft_cap != 0) {
    // 2^(factor · q·k) = e^(2z / cap), of which tanh is made.
    rule.factor = 2 * kLog2E * scale / problem.soft_cap;
    rule.cap = problem.soft_cap * kLog2E;
  }
  rule.bias = problem.bias;
  if (problem.bias == AttentionBias::kAlibi) {
    rule.slope =
        kLog2E *
        args.alibi_slopes.As<float>()[head * args.alibi_slopes.stride[0]];
  } else if (problem.bias == AttentionBias::kRelative) {
    rule.table =
        args.relative_table.As<float>() + head * args.relative_table.stride[0];
    rule.reach = problem.relative_reach;
  }
  return rule;
}

}  // namespace headwise
