// Door: prune_plan.h.
#include "headwise/api/prune_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <string>

#include "headwise/api/prune_timing.h"
#include "headwise/api/state.h"
#include "headwise/error.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/pruning/iterate.h"
#include "headwise/heads/pruning/learned_gates.h"
#include "headwise/heads/pruning/plan.h"

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

// Too few sequences have an interval too wide to choose by.
void RequireEnoughToJudge(const JudgedText& judge) {
  constexpr int64_t kLeastSequences = 8;
  const int64_t found = judge.OfWhole().sequences;
  if (found >= kLeastSequences) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"`max_loss`",
               fmt::format("at least {} sequences to judge by, of a text of {}",
                           kLeastSequences, 4 * kLeastSequences),
               std::to_string(found), "more text, or a smaller `context`"});
}

std::string LimitText(const LossLimit& limit) {
  return limit.relative ? fmt::format("{:g} % of it", 100 * limit.value)
                        : fmt::format("{:g} nats", limit.value);
}

// The largest set whose measured loss stays within the limit.
Heads WithinLoss(const PlanWork& work, const std::vector<Heads>& sets,
                 std::string& note) {
  const LossLimit limit = ParseLossLimit(*work.job.max_loss);
  if (limit.relative &&
      work.judge.OfWhole().loss_kind == LossKind::kEmbeddingCosine) {
    throw Error(ErrorCode::kInvalidArgument,
                {"`max_loss`", "a rise as a number, +0.05", *work.job.max_loss,
                 "the loss is the distance from the model's own output: 0, of "
                 "which no share can be taken"});
  }
  RequireEnoughToJudge(work.judge);
  const double most = limit.Of(work.judge.loss());
  int tried = 0;
  const size_t beyond = 1 + FirstThat(sets.size() - 1, [&](size_t i) {
                          ++tried;
                          const auto smaller = work.pruner.Without(sets[i + 1]);
                          return work.judge.Of(*smaller).closed.value > most;
                        });
  note = fmt::format(
      "Loss at most {:.4f}, the whole model's {:.4f} and {}: {} sets were "
      "measured on {} sequences of {}, so that they chose the size.",
      most, work.judge.loss(), LimitText(limit), tried,
      work.judge.OfWhole().sequences, work.domain);
  return sets[beyond - 1];
}

// The smallest set whose measured speed reaches the target.
Heads FastEnough(const PlanWork& work, const std::vector<Heads>& sets,
                 std::string& note) {
  // Ranks that measure at once disturb each other: the first does.
  if (!work.model.state().is_first()) return {};
  const PruneJob& job = work.job;
  const Model& model = work.model.state().model();
  double last = 0;
  std::string what;
  const auto speed = [&](const Heads& set) {
    const auto smaller = work.pruner.Unfitted(set);
    const PairTiming timing =
        TimePrefill({work.model.context(), model, *smaller}, job.time);
    what = timing.what;
    return last = timing.before_ms / timing.after_ms;
  };
  if (sets.size() < 2 || speed(sets.back()) < *job.target_speedup) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"`target_speedup`",
         fmt::format("at most {:.2f}, measured with {} of {} heads "
                     "removed ({})",
                     last, sets.back().size(), AllHeads(model).size(), what),
         fmt::format("{}", *job.target_speedup),
         job.allow_empty ? "" : "`allow_empty` removes more"});
  }
  const size_t first = FirstThat(sets.size() - 1, [&](size_t i) {
    return speed(sets[i]) >= *job.target_speedup;
  });
  const double reached = speed(sets[first]);
  note = fmt::format(
      "{} heads are the fewest with {:.2f}× of {}; again: "
      "{:.2f}×.",
      sets[first].size(), *job.target_speedup, what, reached);
  return sets[first];
}

GateLearning LearningOf(const PruneJob& job) {
  GateLearning learning;
  learning.steps = job.tune ? job.tune_steps : job.gate_steps;
  learning.penalty = job.gate_penalty;
  learning.seed = job.seed;
  learning.rate = job.tune ? job.finetune_rate : 0;
  return learning;
}

LearnedGates Learn(const PlanWork& work, const GateLearning& learning) {
  GateOptions gates;
  gates.learning = learning;
  gates.type = work.model.type();
  gates.objective = work.input.objective;
  gates.progress = work.pruner.pass().progress;
  gates.stop = work.pruner.pass().stop;
  return LearnGates(work.model.context(), work.model.folder(),
                    work.pruner.split().choose, gates);
}

// The scores of gates, whose weights are then in use where they learned along.
std::vector<double> GatesOf(const PlanWork& work, PruningPlan& plan) {
  plan.gates = LearningOf(work.job);
  LearnedGates learned = Learn(work, *plan.gates);
  if (plan.gates->tuned()) {
    work.pruner.UseTuned(*plan.gates, std::move(learned.tensors));
  }
  plan.criterion = plan.gates->tuned() ? "gates, tuned" : "gates";
  plan.search =
      fmt::format("Gates: {} of {} closed in {} steps.", learned.closed,
                  learned.scores.size(), plan.gates->steps);
  return std::move(learned.scores);
}

PruningPlan GivenPlan(const PlanWork& work) {
  PruningPlan plan;
  plan.model = work.model.folder().string();
  plan.model_hash = work.model.hash();
  plan.criterion = "given";
  plan.removed =
      WithAllUses(work.model.state().model().config(), work.job.drop);
  return plan;
}

}  // namespace

std::vector<double> ScoreHeads(const PlanWork& work, const Model& now) {
  const PruneJob& job = work.job;
  if (job.by == Criterion::kGates) return Learn(work, LearningOf(job)).scores;
  RankOptions rank;
  rank.job = {.by = {job.by}, .seed = job.seed};
  rank.objective = work.input.objective;
  rank.pass = work.pruner.pass();
  const Ranking ranking =
      RankHeads(work.model.context(), now, work.pruner.split().choose, rank);
  std::vector<double> scores;
  for (const Interval& head : ranking.criteria[0].heads) {
    scores.push_back(head.value);
  }
  return scores;
}

void UseWeightsOf(const PruningPlan& plan, const PlanWork& work) {
  Pruner& pruner = work.pruner;
  if (!plan.gates || !plan.gates->tuned()) return pruner.UseOwn();
  if (pruner.tuned_by() == plan.gates) return;
  pruner.UseTuned(*plan.gates, Learn(work, *plan.gates).tensors);
}

PruningPlan MakePlan(const PlanWork& work) {
  const PruneJob& job = work.job;
  const Model& model = work.model.state().model();
  if (job.plan) return ReadPlan(*job.plan, model, work.model.hash());
  PruningPlan plan = GivenPlan(work);
  if (!job.drop.empty()) return plan;
  IterativeWork steps;
  steps.steps = job.iterative;
  steps.choose = ChoiceOf(job);
  if (!job.keep) steps.choose.keep = LeastShare(model, steps.choose);
  steps.without = [&](const Heads& gone) { return work.pruner.Unfitted(gone); };
  plan.criterion = Name(job.by);
  steps.score = [&](const Model& now) {
    return job.by == Criterion::kGates ? GatesOf(work, plan)
                                       : ScoreHeads(work, now);
  };
  const Removal removal = RemoveInSteps(model, steps);
  plan.scores = removal.scores;
  std::string note;
  if (job.max_loss) {
    plan.removed = WithinLoss(work, removal.sets, note);
  } else if (job.target_speedup) {
    plan.removed = FastEnough(work, removal.sets, note);
  } else if (job.iterative > 1) {
    plan.removed = removal.sets.back();
  } else {
    plan.removed = ChooseHeads(model, plan.scores, ChoiceOf(job));
  }
  if (!plan.search.empty() && !note.empty()) plan.search += ' ';
  plan.search += note;
  return plan;
}

}  // namespace headwise
