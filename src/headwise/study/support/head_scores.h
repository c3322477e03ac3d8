// How much every head of a model looks where it was asked to: exact shares of
// attention on chosen keys, on sequences of repeated random tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/context.h"
#include "headwise/nn/hooks.h"
#include "headwise/study/support/tiny_model.h"

namespace headwise {

// Different random tokens, repeated to the end: what comes after the first
// period can be told from what came before. Periods vary, so that no fixed
// distance helps.
struct Repeats {
  int64_t vocabulary = 64;
  int64_t length = 64;
  int64_t min_period = 8;
  int64_t max_period = 28;

  std::vector<int32_t> Tokens(Rng& rng) const;
};

// Next-token prediction on them; only_repeated: of what can be told.
MadeBatches RepeatBatches(const Repeats& repeats, uint64_t seed,
                          bool only_repeated = false);

// One value a head, layer by layer: the mean over queries of the attention on
// the keys that count.
struct HeadScores {
  std::vector<double> previous;  // the token before
  std::vector<double> near;      // the four before
  std::vector<double> prefix;    // tokens that followed the query's own before:
                                 // induction; queries of the repeated part
  std::vector<double> same;      // earlier copies of the query's token
};

// Runs the first `count` sequences. hooks: what the model runs with, or null.
HeadScores ScoreHeads(Context& context, const Model& model,
                      const BatchSource& data, int64_t count,
                      RunHooks* hooks = nullptr);

// Mean loss of the first `count` sequences, run with the hooks.
double LossWith(Context& context, const Model& model, const BatchSource& data,
                int64_t count, RunHooks* hooks);

}  // namespace headwise
