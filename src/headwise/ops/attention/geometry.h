// Which rows of the views belong to a sequence, and who sees whom: the one
// place where ragged, packed and offset problems are told apart.
#pragma once

#include <cmath>
#include <cstdint>

#include "headwise/attention.h"

namespace headwise {

inline int64_t ValueDim(const AttentionProblem& problem) {
  return problem.value_dim == 0 ? problem.head_dim : problem.value_dim;
}

inline double Scale(const AttentionProblem& problem) {
  return problem.scale != 0
             ? problem.scale
             : 1.0 / std::sqrt(static_cast<double>(problem.head_dim));
}

// First sizes of the views: [B, M, …] and [B, N, …]; packed: [1, total, …].
struct ViewSizes {
  int64_t batch = 0;
  int64_t queries = 0;
  int64_t keys = 0;
};
inline ViewSizes SizesOf(const AttentionProblem& problem,
                         const AttentionArgs& args) {
  if (problem.packed) return {1, args.q.shape[1], args.k.shape[1]};
  return {problem.batch, problem.query_len, problem.key_len};
}

// Whether query_offsets are of queries and not of sequences. Where every
// sequence has one query, they are the same.
inline bool GivesPositions(const AttentionProblem& problem,
                           const AttentionArgs& args) {
  return problem.packed && args.query_offsets &&
         args.query_offsets.shape[0] != problem.batch;
}

// One sequence: query i is row query_begin + i of slice `batch` of the views
// and stands at PositionOf(i); key j is row key_begin + j.
struct Sequence {
  int64_t batch = 0;
  int64_t query_begin = 0;
  int64_t query_rows = 0;  // rows the views have for it
  int64_t queries = 0;     // those that count; the others get zeros
  int64_t key_begin = 0;
  int64_t key_rows = 0;
  int64_t keys = 0;
  int64_t offset = 0;
  const int32_t* positions = nullptr;  // of the queries, where they are given

  int64_t PositionOf(int64_t i) const {
    return positions == nullptr ? i + offset : positions[i];
  }
};

// Host views only.
inline Sequence SequenceOf(const AttentionProblem& problem,
                           const AttentionArgs& args, int64_t index) {
  Sequence s;
  auto read = [&](const ConstTensorView& view, int64_t i) {
    return static_cast<int64_t>(view.Raw<int32_t>()[i * view.stride[0]]);
  };
  if (problem.packed) {
    s.query_begin = read(args.query_starts, index);
    s.query_rows = read(args.query_starts, index + 1) - s.query_begin;
    s.key_begin = read(args.key_starts, index);
    s.key_rows = read(args.key_starts, index + 1) - s.key_begin;
  } else {
    s.batch = index;
    s.query_rows = problem.query_len;
    s.key_rows = problem.key_len;
  }
  s.queries =
      args.query_lengths ? read(args.query_lengths, index) : s.query_rows;
  s.keys = args.key_lengths ? read(args.key_lengths, index) : s.key_rows;
  if (GivesPositions(problem, args)) {
    s.positions = args.query_offsets.Raw<int32_t>() + s.query_begin;
  } else {
    s.offset = args.query_offsets ? read(args.query_offsets, index)
                                  : problem.mask.query_offset;
  }
  return s;
}

// Whether a query at `position` sees key j.
inline bool Sees(const AttentionMask& mask, int64_t position, int64_t j) {
  return j - position <= mask.after &&
         (position - j <= mask.before || j < mask.sinks);
}

}  // namespace headwise
