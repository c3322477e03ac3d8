// What `headwise prune` was asked for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/pruning/choose.h"
#include "headwise/heads/pruning/remove.h"
#include "prune_material.h"
#include "run_flags.h"

namespace headwise {

struct PruneOptions {
  RunFlags run;
  TextFlags text = {.paths = {}, .tokens = 16384, .context = 0, .reading = {}};
  double keep = -1;
  std::string drop;
  std::string plan;
  std::string max_loss;
  double target_speedup = 0;
  std::string by = "ablation-mean";
  int64_t iterative = 1;
  int64_t gate_steps = 200;
  std::string repair = "none";
  std::string mean;  // a profile
  int64_t finetune_steps = 100;
  double finetune_rate = 1e-4;
  std::string plan_out;
  std::string out;
  std::string curve;
  int64_t random_orders = 5;
  bool uniform = false;
  bool whole_groups = false;
  bool allow_empty = false;
  bool plan_only = false;
  bool force = false;
  bool no_timing = false;
  uint64_t seed = 0;

  Replace replace() const {
    return force ? Replace::kAllowed : Replace::kRefused;
  }
  EmptyLayers empty() const {
    return allow_empty ? EmptyLayers::kAllowed : EmptyLayers::kRefused;
  }
  // keep: as it was given, or all of what may leave.
  ChooseOptions choice() const;
};

// Repairs in their order: fold, least-squares, finetune.
struct Repairs {
  bool fold = false;
  bool least_squares = false;
  bool finetune = false;
};
// "none", or names with commas in between, in that order. Throws UsageError.
Repairs ParseRepairs(const std::string& names);

// "+1%" of a loss, or "+0.05" nats. Throws UsageError.
struct LossLimit {
  double value = 0;
  bool relative = false;
  double Of(double loss) const {
    return relative ? loss * (1 + value) : loss + value;
  }
};
LossLimit ParseLossLimit(const std::string& text);

// Throws UsageError for flags that do not go together.
void CheckUsage(const PruneOptions& options);

// Heads are chosen on the first three quarters of the text, and judged on the
// rest.
struct TextParts {
  std::span<const TextExample> choose, judge;
};
TextParts SplitText(std::span<const TextExample> examples);

}  // namespace headwise
