// How the raw products q·k of one sequence and head become log2 probabilities,
// and which keys a query sees: plain numbers that the vector code reads
// (score-inl.h applies them).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

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
    const int64_t p = sequence.PositionOf(i);
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
// Where positions are given: none falls.
inline QueryRange PlacedQueriesSeeing(const ScoreRule& rule, QueryRange queries,
                                      int64_t j, int64_t j_end) {
  const AttentionMask& mask = rule.mask;
  const int32_t* positions = rule.sequence.positions;
  const auto first = [&](int64_t least) {
    return std::lower_bound(positions + queries.begin, positions + queries.end,
                            least) -
           positions;
  };
  const int64_t begin = mask.after < j ? first(j - mask.after) : queries.begin;
  if (j >= mask.sinks && mask.before < kUnlimited - j_end) {
    queries.end = first(j_end + mask.before);
  }
  if (j >= rule.sequence.keys) queries.end = queries.begin;
  queries.begin = begin;
  return queries;
}
inline QueryRange QueriesSeeing(const ScoreRule& rule, QueryRange queries,
                                int64_t j, int64_t j_end) {
  const AttentionMask& mask = rule.mask;
  if (rule.sequence.positions != nullptr) {
    return PlacedQueriesSeeing(rule, queries, j, j_end);
  }
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
        args.alibi_slopes.Raw<float>()[head * args.alibi_slopes.stride[0]];
  } else if (problem.bias == AttentionBias::kRelative) {
    rule.table =
        args.relative_table.Raw<float>() + head * args.relative_table.stride[0];
    rule.reach = problem.relative_reach;
  }
  return rule;
}

// The same, without what the head gives no probability to: one whose table is
// −∞ from some distance on does not look there, and costs what it sees, however
// far other heads of the call look. Statistics count keys that are visible,
// whatever their probability: then nothing is left out.
inline ScoreRule NarrowRuleOf(const AttentionProblem& problem,
                              const AttentionArgs& args,
                              const Sequence& sequence, int64_t head) {
  ScoreRule rule = RuleOf(problem, args, sequence, head);
  if (rule.table == nullptr || args.observation != nullptr) return rule;
  constexpr float kUnseen = -std::numeric_limits<float>::infinity();
  const int64_t reach = rule.reach;
  int64_t first = 0, last = 2 * reach;
  while (first < reach && rule.table[first] == kUnseen) ++first;
  while (last > reach && rule.table[last] == kUnseen) --last;
  // The ends of the table stand for all that is further away.
  if (first > 0) rule.mask.before = std::min(rule.mask.before, reach - first);
  if (last < 2 * reach) {
    rule.mask.after = std::min(rule.mask.after, last - reach);
  }
  return rule;
}

}  // namespace headwise
