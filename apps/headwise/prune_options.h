// The options of `headwise prune`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/prune.h"
#include "headwise/text_input.h"
#include "run_flags.h"

namespace headwise {

struct PruneOptions {
  RunFlags run;
  TextFlags text = {.input = {.tokens = 16384}, .reading = {}};
  PruneJob job;
  std::string drop;
  std::string mean;  // a profile
  std::string plan_out;
  std::string out;
  std::string curve;
  std::vector<std::string> judge;  // texts, each by itself
  std::string prompts;             // a file
  int64_t random_orders = 5;
  bool plan_only = false;
  bool force = false;
};

// Throws UsageError for flags that do not go together, or cannot be read.
void CheckUsage(const PruneOptions& options);

// The texts of --judge. Each is read as far as a quarter of --tokens, which is
// what judges of the text that chooses.
std::vector<TextInput> JudgedTexts(const PruneOptions& options);

// Whether what closed heads gave on average joins the bias.
bool Folds(const PruneOptions& options);

}  // namespace headwise
