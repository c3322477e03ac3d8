// How much every head matters to a model on a text: criteria side by side with
// intervals, heads that hurt, classes, layers, and how uneven it all is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/head_ref.h"
#include "headwise/heads/importance/classes.h"
#include "headwise/heads/importance/criterion.h"
#include "headwise/heads/importance/hurting.h"
#include "headwise/heads/importance/objective.h"
#include "headwise/heads/importance/statistics.h"
#include "headwise/model/head_ref.h"
#include "headwise/rank.h"
#include "headwise/runtime/text_pass.h"

namespace headwise {

// A ranking, and what it is run with besides.
struct RankOptions {
  RankJob job = {.by = {Criterion::kAblationMean}};
  ObjectiveOptions objective = {};
  int64_t replicates = 2000;
  // Tokens of text that run together; resampling needs two sequences in them.
  int64_t batch_tokens = 1024;
  // What other analyses know of heads; absent: the class is not given.
  std::function<bool(const HeadRef&)> has_role = {};
  std::function<bool(const HeadRef&)> has_twin = {};
  // All ranks get the ranking, but for what has_role and has_twin add.
  PassOptions pass = {};
};

// Throws Error: kInvalidArgument for no text or less than the criteria need,
// before anything runs; kCancelled when stopped.
Ranking RankHeads(Context& context, const Model& model,
                  std::span<const TextExample> examples,
                  const RankOptions& options);

// The same check alone.
void RequireEnoughText(const Model& model,
                       std::span<const TextExample> examples,
                       std::span<const Criterion> criteria);

}  // namespace headwise
