// Study assigned (hypothesis). Claim: heads could be given their jobs by hand.
// Expectation: heads that are fixed to the right places learn faster early,
// and heads that find their own are at least as good in the end.
//
// Six of the first layer's eight heads are fixed to one place before the query
// each: their queries and keys are constants whose rotary angles agree there,
// and stay so; values and outputs are learned. The task (pair_task.h) asks for
// exactly these places, so the hand-made assignment is as good as one can be
// that does not depend on what a token says.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "headwise/ops/rope/rope.h"
#include "headwise/study/study.h"
#include "headwise/study/support/pair_task.h"

namespace headwise {
namespace {

constexpr int64_t kLayers = 2, kHeads = 8;
// Length of the constant queries and keys: the place gets 5 nats more than its
// neighbours.
constexpr double kStrength = 5.2;
constexpr double kEqual = 0.02;  // nats

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
  const std::vector<float> frequencies = RopeFrequencies(config.rope);
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
  double early = 0;                   // mean of the first tenth
  double quarter = 0;                 // of the first quarter
  double end = 0;                     // held out
};

Curve Learn(Context& context, uint64_t seed, int64_t steps, bool assigned,
            StudyClock& clock) {
  Json config = PairModel(kLayers, kHeads);
  config["model_type"] = "qwen2";  // Llama with biases on queries and keys
  TinyModel tiny(context, config, PairTraining(steps, seed));
  if (assigned) AssignPlaces(tiny);
  const int64_t stretch = std::max<int64_t>(1, steps / 50);
  auto add = [&](int64_t share, const StepReport& report, double& mean) {
    const int64_t count = std::max<int64_t>(1, steps / share);
    if (report.step < count) mean += report.loss / static_cast<double>(count);
  };
  Curve curve;
  double sum = 0;
  tiny.Train(PairData(seed), clock, [&](const StepReport& report) {
    if (assigned) AssignPlaces(tiny);
    sum += report.loss;
    add(10, report, curve.early);
    add(4, report, curve.quarter);
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
  StudyTable table{"Loss (nats)",
                   {"heads", "seed", "first tenth", "first quarter", "end"},
                   {}};
  LinePlot plot;
  plot.title = "Loss while learning, seed 1";
  plot.x_label = "step";
  plot.y_label = "nats";
  std::vector<double> early, quarter, end;
  for (const uint64_t seed : result.seeds) {
    const Curve learned = Learn(context, seed, steps, false, clock);
    const Curve assigned = Learn(context, seed, steps, true, clock);
    early.push_back(assigned.early - learned.early);
    quarter.push_back(assigned.quarter - learned.quarter);
    end.push_back(learned.end - assigned.end);
    for (const auto& [name, curve] :
         {std::pair<const char*, const Curve&>{"learned", learned},
          {"assigned", assigned}}) {
      table.rows.push_back({name, std::to_string(seed),
                            fmt::format("{:.3f}", curve.early),
                            fmt::format("{:.3f}", curve.quarter),
                            fmt::format("{:.4f}", curve.end)});
      if (seed == result.seeds[0]) {
        plot.series.push_back({name, curve.steps, curve.losses});
      }
    }
  }
  result.AtMost("first tenth, assigned − learned", OverSeeds(early), 0);
  result.AtMost("end, learned − assigned", OverSeeds(end), kEqual);
  result.Report("first quarter, assigned − learned", OverSeeds(quarter));
  result.tables = {std::move(table)};
  result.pictures = {std::move(plot)};
  result.remark =
      "An assigned head looks at its place whatever the marker asks for; a "
      "learned one can follow the marker.";
  return result;
}

}  // namespace

const Study kAssignedStudy = {
    .name = "assigned",
    .claim = "Heads could be given their jobs by hand.",
    .expectation =
        "assigned heads learn faster early; learned heads are at least as "
        "good in the end",
    .kind = StudyKind::kHypothesis,
    .run = Run,
    .trained = true};

}  // namespace headwise
