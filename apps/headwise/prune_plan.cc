// Door: prune_plan.h.
#include "prune_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "command.h"
#include "headwise/error.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/pruning/iterate.h"
#include "headwise/heads/pruning/learned_gates.h"
#include "interrupt.h"
#include "progress_bar.h"
#include "prune_timing.h"

namespace headwise {
namespace {

// The first of [0, count) at which `reached` holds, by bisection; count where
// it never does. What holds at one place is taken to hold beyond.
size_t FirstThat(size_t count, const std::function<bool(size_t)>& reached) {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (reached(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The largest set whose measured loss stays within the limit.
Heads WithinLoss(const PruneOptions& options, const std::vector<Heads>& sets,
                 Pruner& pruner, const JudgedText& judge, std::string& note) {
  const LossLimit limit = ParseLossLimit(options.max_loss);
  if (limit.relative &&
      judge.OfWhole().loss_kind == LossKind::kEmbeddingCosine) {
    throw Error(ErrorCode::kInvalidArgument,
                {"--max-loss", "a rise as a number, +0.05", options.max_loss,
                 "the loss is the distance from the model's own output: 0, of "
                 "which no share can be taken"});
  }
  const double most = limit.Of(judge.loss());
  int tried = 0;
  const size_t beyond =
      1 + FirstThat(sets.size() - 1, [&](size_t i) {
        ++tried;
        return judge.Of(*pruner.Without(sets[i + 1])).closed.value > most;
      });
  note = fmt::format(
      "Loss at most {:.4f}: {} sets were measured on the text that judges, so "
      "that it chose their size.",
      most, tried);
  return sets[beyond - 1];
}

// The smallest set whose measured speed reaches the target.
Heads FastEnough(const PruneOptions& options, const PruneMaterial& material,
                 const std::vector<Heads>& sets, Pruner& pruner,
                 Context& context, std::string& note) {
  double last = 0;
  std::string what;
  const auto speed = [&](const Heads& set) {
    const PairTiming timing =
        TimePrefill(context, material.model(), *pruner.Unfitted(set));
    what = timing.what;
    return last = timing.before_ms / timing.after_ms;
  };
  if (sets.size() < 2 || speed(sets.back()) < options.target_speedup) {
    throw Error(ErrorCode::kInvalidArgument,
                {"--target-speedup",
                 fmt::format("at most {:.2f}, measured with {} of {} heads "
                             "removed ({})",
                             last, sets.back().size(),
                             AllHeads(material.model()).size(), what),
                 fmt::format("{}", options.target_speedup),
                 options.allow_empty ? "" : "--allow-empty removes more"});
  }
  const size_t first = FirstThat(sets.size() - 1, [&](size_t i) {
    return speed(sets[i]) >= options.target_speedup;
  });
  const double reached = speed(sets[first]);
  note = fmt::format(
      "{} heads are the fewest with {:.2f}× of {}; again: "
      "{:.2f}×.",
      sets[first].size(), options.target_speedup, what, reached);
  return sets[first];
}

}  // namespace

std::vector<double> ScoreHeads(const PruneOptions& options,
                               const PruneMaterial& material,
                               const Model& model, Context& context) {
  ProgressBar bar;
  if (options.by == "gates") {
    GateOptions gates;
    gates.steps = options.gate_steps;
    gates.type = options.run.engine.compute();
    gates.objective = material.objective;
    gates.objective.seed = gates.seed = options.seed;
    gates.progress = bar.callback();
    gates.stop = StopOnInterrupt();
    return LearnGates(context, options.run.model,
                      SplitText(material.examples).choose, gates);
  }
  const std::vector<Criterion> criteria = ParseCriteria({&options.by, 1});
  if (criteria.size() != 1) {
    throw UsageError("--by: expected one criterion; \"weights\" is two");
  }
  RankOptions rank;
  rank.criteria = criteria;
  rank.objective = material.objective;
  rank.objective.seed = rank.seed = options.seed;
  rank.progress = bar.callback();
  rank.stop = StopOnInterrupt();
  const Ranking ranking =
      RankHeads(context, model, SplitText(material.examples).choose, rank);
  std::vector<double> scores;
  for (const Interval& head : ranking.criteria[0].heads) {
    scores.push_back(head.value);
  }
  return scores;
}

PruningPlan MakePlan(const PruneOptions& options, const PruneMaterial& material,
                     Pruner& pruner, const JudgedText& judge, Context& context,
                     std::string& note) {
  const Model& model = material.model();
  const std::string& hash = material.checkpoint.hash();
  PruningPlan plan = {.model = options.run.model,
                      .model_hash = hash,
                      .criterion = "given",
                      .removed = {},
                      .scores = {}};
  if (!options.plan.empty()) return ReadPlan(options.plan, model, hash);
  if (!options.drop.empty()) {
    plan.removed = ParseHeads(options.drop, model);
    std::sort(plan.removed.begin(), plan.removed.end());
    return plan;
  }
  IterativeWork work;
  work.steps = options.iterative;
  work.choose = options.choice();
  if (options.keep < 0) work.choose.keep = LeastShare(model, work.choose);
  work.without = [&](const Heads& gone) { return pruner.Unfitted(gone); };
  work.score = [&](const Model& now) {
    return ScoreHeads(options, material, now, context);
  };
  const Removal removal = RemoveInSteps(model, work);
  plan.criterion = options.by;
  plan.scores = removal.scores;
  if (!options.max_loss.empty()) {
    plan.removed = WithinLoss(options, removal.sets, pruner, judge, note);
  } else if (options.target_speedup > 0) {
    plan.removed =
        FastEnough(options, material, removal.sets, pruner, context, note);
  } else if (options.iterative > 1) {
    plan.removed = removal.sets.back();
  } else {
    plan.removed = ChooseHeads(model, plan.scores, options.choice());
  }
  return plan;
}

}  // namespace headwise
