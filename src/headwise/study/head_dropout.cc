// Study head-dropout (hypothesis). Claim: dropping whole heads in training
// spreads the work, so that no single head is critical. Expectation: against
// training without it, the importances are more even (lower Gini), the worst
// single ablation costs less, and more of what one head did is made up for by
// the others. Plain dropout stands beside it.
//
// Backup is 1 − Σ Δ(one head) / Δ(all heads): 0 where every head's loss is its
// own, towards 1 where others stand in.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "headwise/heads/importance/statistics.h"
#include "headwise/study/study.h"
#include "headwise/study/support/pair_task.h"

namespace headwise {
namespace head_dropout_study {
namespace {

struct Arm {
  const char* name;
  double dropout;
  double head_dropout;
};
constexpr Arm kArms[] = {
    {"none", 0, 0}, {"dropout .1", 0.1, 0}, {"head dropout .2", 0, 0.2}};

// Of one seed.
struct Outcome {
  double loss = 0, gini = 0, worst = 0, backup = 0;
  std::vector<double> ranked;  // rise by rank of the head
};

Outcome RunArm(Context& context, const Arm& arm, uint64_t seed, int64_t steps,
               StudyClock& clock) {
  TrainConfig how = PairTraining(steps, seed);
  how.dropout = arm.dropout;
  how.head_dropout = arm.head_dropout;
  TinyModel tiny(context, PairModel(2, 8), how);
  tiny.Train(PairData(seed), clock);
  HeadWorth worth = WorthOfHeads(context, tiny.model());
  double sum = 0;
  for (const double one : worth.single) sum += std::max(one, 0.0);
  Outcome outcome;
  outcome.loss = worth.loss;
  outcome.gini = Gini(worth.single);
  std::sort(worth.single.rbegin(), worth.single.rend());
  outcome.worst = worth.single[0];
  outcome.backup = 1 - sum / worth.all;
  outcome.ranked = std::move(worth.single);
  return outcome;
}

Series MeanRise(const char* name, const std::vector<Outcome>& outcomes) {
  Series series{name, {}, std::vector<double>(outcomes[0].ranked.size())};
  for (size_t i = 0; i < series.y.size(); ++i) {
    series.x.push_back(static_cast<double>(i + 1));
    for (const Outcome& one : outcomes) {
      series.y[i] += one.ranked[i] / static_cast<double>(outcomes.size());
    }
  }
  return series;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  const int64_t steps = StudySteps(request, 400, 1200);
  StudyResult result;
  result.seeds = StudySeeds(request);
  StudyClock clock(
      request, "head-dropout",
      steps * static_cast<int64_t>(std::size(kArms) * result.seeds.size()));
  StudyTable table{"Held-out loss, and what closing heads costs (nats)",
                   {"training", "loss", "Gini", "worst head", "backup"},
                   {}};
  LinePlot plot;
  plot.title = "Rise of the loss when one head is closed";
  plot.x_label = "heads, the costliest first";
  plot.y_label = "nats";
  const std::vector<std::vector<Outcome>> arms =
      RunCases(context, std::size(kArms), result.seeds,
               [&](Context& own, size_t arm, uint64_t seed) {
                 return RunArm(own, kArms[arm], seed, steps, clock);
               });
  for (size_t i = 0; i < arms.size(); ++i) {
    std::vector<std::string> row = {kArms[i].name};
    for (const auto of :
         {&Outcome::loss, &Outcome::gini, &Outcome::worst, &Outcome::backup}) {
      row.push_back(ShowInterval(OverSeeds(EachOf(arms[i], of))));
    }
    table.rows.push_back(std::move(row));
    plot.series.push_back(MeanRise(kArms[i].name, arms[i]));
  }
  const auto less_none = [&](size_t arm, double Outcome::*of) {
    return DifferenceOverSeeds(EachOf(arms[arm], of), EachOf(arms[0], of));
  };
  constexpr size_t kPlain = 1, kDropped = 2;
  for (const size_t arm : {size_t{0}, kDropped}) {
    TellPairLoss(fmt::format("held-out loss, {}", kArms[arm].name),
                 EachOf(arms[arm], &Outcome::loss), result);
  }
  result.AtMost("Gini, head dropout − none",
                less_none(kDropped, &Outcome::gini), 0);
  result.AtMost("worst single head, head dropout − none",
                less_none(kDropped, &Outcome::worst), 0);
  result.AtLeast("backup, head dropout − none",
                 less_none(kDropped, &Outcome::backup), 0);
  result.Report("loss, head dropout − none",
                less_none(kDropped, &Outcome::loss));
  result.Report("Gini, plain dropout − none",
                less_none(kPlain, &Outcome::gini));
  result.tables = {std::move(table)};
  result.pictures = {std::move(plot)};
  result.remark =
      "Gini is of the rises in loss when single heads are closed: 0 where all "
      "cost the same. Backup is 1 − Σ single rises / rise with all closed.";
  return result;
}

constexpr StudyChange kHistory[] = {
    HarderPairs("4096 markers, the n-th 1/n as frequent as the first, a model "
                "half as wide, 8 sequences a step; 1200 full steps, of 1000"),
};
constexpr uint64_t kFreshSeeds[] = {11, 12, 13, 14, 15};

}  // namespace
}  // namespace head_dropout_study

const Study kHeadDropoutStudy = {
    .name = "head-dropout",
    .claim = "Dropping whole heads in training makes no single head critical.",
    .expectation =
        "against none: lower Gini of importances, cheaper worst single "
        "ablation, more backup",
    .kind = StudyKind::kHypothesis,
    .run = head_dropout_study::Run,
    .trained = true,
    .any_device = true,
    .revision = 2,
    .history = head_dropout_study::kHistory,
    .fresh_seeds = head_dropout_study::kFreshSeeds};

}  // namespace headwise
