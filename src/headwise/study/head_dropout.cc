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

#include "headwise/heads/importance/statistics.h"
#include "headwise/study/study.h"
#include "headwise/study/support/pair_task.h"

namespace headwise {
namespace {

struct Arm {
  const char* name;
  double dropout;
  double head_dropout;
};
constexpr Arm kArms[] = {
    {"none", 0, 0}, {"dropout .1", 0.1, 0}, {"head dropout .2", 0, 0.2}};

// By seed.
struct ArmResult {
  std::vector<double> loss, gini, worst, backup;
  std::vector<double> ranked;  // mean rise by rank of the head
};

ArmResult RunArm(Context& context, const StudyRequest& request, const Arm& arm,
                 int64_t steps, StudyClock& clock) {
  ArmResult result;
  const std::vector<uint64_t> seeds = StudySeeds(request);
  for (const uint64_t seed : seeds) {
    TrainConfig how = PairTraining(steps, seed);
    how.dropout = arm.dropout;
    how.head_dropout = arm.head_dropout;
    TinyModel tiny(context, PairModel(2, 8), how);
    tiny.Train(PairData(seed), clock);
    HeadWorth worth = WorthOfHeads(context, tiny.model());
    double sum = 0;
    for (const double one : worth.single) sum += std::max(one, 0.0);
    result.loss.push_back(worth.loss);
    result.gini.push_back(Gini(worth.single));
    std::sort(worth.single.rbegin(), worth.single.rend());
    result.worst.push_back(worth.single[0]);
    result.backup.push_back(1 - sum / worth.all);
    result.ranked.resize(worth.single.size());
    for (size_t i = 0; i < worth.single.size(); ++i) {
      result.ranked[i] += worth.single[i] / static_cast<double>(seeds.size());
    }
  }
  return result;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  const int64_t steps = StudySteps(request, 400, 1000);
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
  std::vector<ArmResult> arms;
  for (const Arm& arm : kArms) {
    arms.push_back(RunArm(context, request, arm, steps, clock));
    const ArmResult& own = arms.back();
    table.rows.push_back({arm.name, ShowInterval(OverSeeds(own.loss)),
                          ShowInterval(OverSeeds(own.gini)),
                          ShowInterval(OverSeeds(own.worst)),
                          ShowInterval(OverSeeds(own.backup))});
    Series series{arm.name, {}, own.ranked};
    for (size_t i = 0; i < own.ranked.size(); ++i) {
      series.x.push_back(static_cast<double>(i + 1));
    }
    plot.series.push_back(std::move(series));
  }
  const ArmResult& none = arms[0];
  const ArmResult& dropped = arms[2];
  result.AtMost("Gini, head dropout − none",
                DifferenceOverSeeds(dropped.gini, none.gini), 0);
  result.AtMost("worst single head, head dropout − none",
                DifferenceOverSeeds(dropped.worst, none.worst), 0);
  result.AtLeast("backup, head dropout − none",
                 DifferenceOverSeeds(dropped.backup, none.backup), 0);
  result.Report("loss, head dropout − none",
                DifferenceOverSeeds(dropped.loss, none.loss));
  result.tables = {std::move(table)};
  result.pictures = {std::move(plot)};
  result.remark =
      "Gini is of the rises in loss when single heads are closed: 0 where all "
      "cost the same. Backup is 1 − Σ single rises / rise with all closed.";
  return result;
}

}  // namespace

const Study kHeadDropoutStudy = {
    .name = "head-dropout",
    .claim = "Dropping whole heads in training makes no single head critical.",
    .expectation =
        "against none: lower Gini of importances, cheaper worst single "
        "ablation, more backup",
    .kind = StudyKind::kHypothesis,
    .run = Run,
    .trained = true,
    .any_device = true};

}  // namespace headwise
