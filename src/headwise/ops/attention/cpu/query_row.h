// Probabilities of one query and head, O(D) an entry: the slow but frugal way,
// for a few rows, listed pairs and windows. Tiles are for whole matrices.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/observation.h"
#include "headwise/ops/attention/cpu/score_rule.h"

namespace headwise {

struct QueryRow {
  ScoreRule rule;
  int64_t query = 0;
  const float* q = nullptr;  // [D], times rule.factor
  const float* k = nullptr;  // [N, D] of its sequence, rows key_stride apart
  int64_t key_stride = 0;
  int64_t head_dim = 0;
  float lse = 0;

  // Rows past a ragged sequence's end see nothing.
  KeyRange Visible() const {
    return query < rule.sequence.queries ? rule.Visible(query) : KeyRange();
  }
};

// q: [D], where the scaled query is put; it outlives the result.
QueryRow MakeQueryRow(const AttentionProblem& problem,
                      const AttentionArgs& args, const RowRef& ref,
                      int64_t head, float* q);

// The same for another query of its sequence and head.
void MoveQueryRow(const AttentionProblem& problem, const AttentionArgs& args,
                  int64_t query, int64_t head, float* q, QueryRow& row);

// p: [end − begin], probabilities of keys [begin, end); 0 for unseen ones and
// past the sequence's end.
void RowProbabilities(const QueryRow& row, int64_t begin, int64_t end,
                      float* p);

// p: [keys.size()]
void ListedProbabilities(const QueryRow& row, std::span<const int32_t> keys,
                         float* p);

}  // namespace headwise
