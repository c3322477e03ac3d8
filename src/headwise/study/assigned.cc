// Study assigned (hypothesis). Claim: heads could be given their jobs by hand.
// Expectation: heads that are fixed to the right places learn faster early (a
// lower mean loss over the first third of the steps), and heads that find their
// own are at least as good in the end.
//
// Six of the first layer's eight heads are fixed to one place before the query
// each: their queries and keys are constants whose rotary angles agree there,
// and stay so; values and outputs are learned. The task (pair_task.h) asks for
// exactly these places, so the hand-made assignment is as good as one can be
// that does not depend on what a token says.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "headwise/ops/rope/rope.h"
#include "headwise/study/study.h"
#include "headwise/study/support/pair_task.h"

namespace headwise {
namespace assigned_study {
namespace {

constexpr int64_t kLayers = 2, kHeads = 8;
// Length of the constant queries and keys: the place gets 5 nats more than its
// neighbours.
constexpr double kStrength = 5.2;

// A tensor's rows of one head.
std::span<float> RowsOfHead(TinyModel& tiny, const std::string& name,
                            int64_t head) {
  const TensorView value =
      tiny.store().entries().at("model.layers.0.self_attn." + name).value;
  const int64_t size = value.size() / kHeads;
  return {value.As<float>() + head * size, static_cast<size_t>(size)};
}

// Head h looks h + 1 places back.
void AssignPlaces(TinyModel& tiny) {
  const ModelConfig& config = tiny.model().config();
  const std::vector<float> frequencies = RopeFrequencies(config.ropes.at(0));
  const int64_t half = config.head_dim / 2;
  for (int64_t h = 0; h < kPairPlaces; ++h) {
    for (const char* name : {"q_proj.weight", "k_proj.weight"}) {
      std::ranges::fill(RowsOfHead(tiny, name, h), 0.0f);
    }
    const std::span<float> q = RowsOfHead(tiny, "q_proj.bias", h);
    const std::span<float> k = RowsOfHead(tiny, "k_proj.bias", h);
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(h + 1) * frequencies[i];
      q[i] = static_cast<float>(kStrength * std::cos(angle));
      q[half + i] = static_cast<float>(-kStrength * std::sin(angle));
      k[i] = static_cast<float>(kStrength);
      k[half + i] = 0;
    }
  }
}

struct Curve {
  std::vector<double> steps, losses;  // training, averaged over stretches
  double early = 0;                   // mean of the first third
  double end = 0;                     // held out
};

Curve Learn(Context& context, uint64_t seed, int64_t steps, bool assigned,
            StudyClock& clock) {
  Json config = PairModel(kLayers, kHeads);
  config["model_type"] = "qwen2";  // Llama with biases on queries and keys
  TinyModel tiny(context, config, PairTraining(steps, seed));
  if (assigned) AssignPlaces(tiny);
  const int64_t stretch = std::max<int64_t>(1, steps / 50);
  const int64_t third = std::max<int64_t>(1, steps / 3);
  Curve curve;
  double sum = 0;
  tiny.Train(PairData(seed), clock, [&](const StepReport& report) {
    if (assigned) AssignPlaces(tiny);
    sum += report.loss;
    if (report.step < third) {
      curve.early += report.loss / static_cast<double>(third);
    }
    if ((report.step + 1) % stretch != 0) return;
    curve.steps.push_back(static_cast<double>(report.step + 1));
    curve.losses.push_back(sum / static_cast<double>(stretch));
    sum = 0;
  });
  curve.end = PairLoss(context, tiny.model(), {});
  return curve;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  const int64_t steps = StudySteps(request, 400, 1200);
  StudyResult result;
  result.seeds = StudySeeds(request);
  StudyClock clock(request, "assigned",
                   2 * steps * static_cast<int64_t>(result.seeds.size()));
  const std::vector<std::vector<Curve>> curves =
      RunCases(context, 2, result.seeds,
               [&](Context& own, size_t assigned, uint64_t seed) {
                 return Learn(own, seed, steps, assigned == 1, clock);
               });
  constexpr const char* kNames[] = {"learned", "assigned"};
  StudyTable table{"Loss (nats)", {"heads", "seed", "first third", "end"}, {}};
  LinePlot plot;
  plot.title = "Loss while learning, first seed";
  plot.x_label = "step";
  plot.y_label = "nats";
  std::vector<double> early[2], end[2];
  for (size_t i = 0; i < std::size(kNames); ++i) {
    for (size_t s = 0; s < result.seeds.size(); ++s) {
      const Curve& curve = curves[i][s];
      early[i].push_back(curve.early);
      end[i].push_back(curve.end);
      table.rows.push_back({kNames[i], std::to_string(result.seeds[s]),
                            fmt::format("{:.3f}", curve.early),
                            fmt::format("{:.4f}", curve.end)});
    }
    plot.series.push_back({kNames[i], curves[i][0].steps, curves[i][0].losses});
    TellPairLoss(fmt::format("held-out loss at the end, {}", kNames[i]), end[i],
                 result);
  }
  result.AtMost("first third, assigned − learned",
                DifferenceOverSeeds(early[1], early[0]), 0);
  result.AtMost("end, learned − assigned", DifferenceOverSeeds(end[0], end[1]),
                kEqualPairs);
  result.tables = {std::move(table)};
  result.pictures = {std::move(plot)};
  result.remark =
      "An assigned head looks at its place whatever the marker asks for; a "
      "learned one can follow the marker.";
  return result;
}

constexpr StudyChange kHistory[] = {
    HarderPairs("4096 markers, the n-th 1/n as frequent as the first, a model "
                "half as wide, 8 sequences a step; early is the first third, "
                "of a tenth, in which nothing is learned "
                "now; equally good is within .1 nats, of .02"),
};

}  // namespace
}  // namespace assigned_study

const Study kAssignedStudy = {
    .name = "assigned",
    .claim = "Heads could be given their jobs by hand.",
    .expectation =
        "assigned heads learn faster early; learned heads are at least as "
        "good in the end",
    .kind = StudyKind::kHypothesis,
    .run = assigned_study::Run,
    .trained = true,
    .revision = 2,
    .history = assigned_study::kHistory,
    .fresh_seeds = kFreshSeeds<11>};

}  // namespace headwise
