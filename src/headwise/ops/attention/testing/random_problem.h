// Seeded random attention problems with their tensors: every option of the
// contract, alone and together. Test only.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "headwise/attention.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/testing/test_tensor.h"

namespace headwise {

struct RandomProblemOptions {
  // Types to choose from.
  std::vector<DType> types = {DType::kF32};
  // Bound on batch · heads · queries · keys · (head_dim + value_dim), which
  // is what the reference pays for; a few problems are several times larger.
  double work = 6e6;
  int64_t max_len = 4097;
  int64_t max_query_len = 0;  // 0: as many as keys
  bool every_width = false;   // heads of 1 + seed mod 256 columns
  double sinks = 0.5;         // share of the problems with sink logits
  // NaN and ∞ somewhere in q, k or v.
  bool non_finite = false;
};

// Inputs of every pass over one problem. Scores stay within ±20.
struct RandomProblem {
  uint64_t seed = 0;
  AttentionProblem problem;
  AttentionArgs args;       // inputs only
  Observation observation;  // inputs only
  ConstTensorView dout;
  ConstTensorView dentropy;  // null: not this time
  double value_bound = 1;    // max(1, |v|, |μ|): what outputs scale with
  // Of the second passes.
  std::vector<RowRef> rows;
  std::vector<int64_t> pair_offsets;
  std::vector<int32_t> pair_keys;
  WindowRequest window;
  bool has_window = false;  // there is a query and a key to look at
  int64_t picture_rows = 1;
  int64_t picture_columns = 1;
  int64_t top_k = 1;

  PairList pairs() const { return {rows, pair_offsets, pair_keys}; }
  // "seed 7: 8 heads × 64, …": enough to make it again.
  std::string Text() const;

  std::deque<TestTensor> tensors;  // what the views point to
  std::vector<int32_t> active_heads;
};

RandomProblem MakeRandomProblem(uint64_t seed,
                                const RandomProblemOptions& options = {});

// How many problems a randomised test runs: $HEADWISE_TEST_PROBLEMS, else
// `plain`, or far fewer under a sanitizer.
int64_t TestProblems(int64_t plain);
// Seed of the first one: $HEADWISE_TEST_SEED, else 1.
uint64_t TestSeed();

}  // namespace headwise
