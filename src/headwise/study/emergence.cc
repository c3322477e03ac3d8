// Claim: heads specialise by training, without labels: induction heads appear
//   in models of attention alone with two layers, suddenly and with the loss,
//   and not with one, unless its keys carry a part of the key before.
// Expectation: on repeated random tokens the best head's prefix-matching score
//   reaches ≥ .4 with two layers, stays ≤ .1 with one, and with one layer of
//   smeared keys rises to ≥ .4 again (Olsson et al. 2022).
// Kind: literature.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "headwise/study/support/attention_only.h"
#include "headwise/study/support/head_scores.h"

namespace headwise {
namespace emergence_study {
namespace {

constexpr Repeats kText = {};
constexpr int64_t kHeads = 4;
constexpr int64_t kEvery = 50;   // steps between statistics
constexpr int64_t kScored = 16;  // sequences
// The score from which a head counts as an induction head, and where a rise
// begins and ends.
constexpr double kInduction = 0.4, kLow = 0.1;

struct Kind {
  const char* name;
  int64_t layers;
  bool smeared;
};
constexpr Kind kModels[] = {{"two layers", 2, false},
                            {"one layer", 1, false},
                            {"one layer, smeared keys", 1, true}};

struct Life {
  Series prefix, loss;  // by step: of the best head; of repeated tokens
  double best = 0, previous = 0;
  double final_loss = 0;
};

double Most(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

Life Live(Context& context, const Kind& kind, uint64_t seed, int64_t steps,
          StudyClock& clock) {
  const TrainConfig how = TinyTraining(seed, steps);
  const std::unique_ptr<TinyModel> tiny =
      MakeAttentionOnly(context,
                        {.layers = kind.layers,
                         .heads = kHeads,
                         .width = 64,
                         .vocabulary = kText.vocabulary},
                        how);
  std::optional<SmearedKeys> smear;
  if (kind.smeared) smear.emplace(kHeads);
  RunHooks* hooks = smear ? &*smear : nullptr;
  const MadeBatches data = RepeatBatches(kText, seed);
  const MadeBatches held_out = RepeatBatches(kText, 1000 + seed, true);
  Life life{{kind.name, {}, {}}, {kind.name, {}, {}}};
  auto look = [&](int64_t step) {
    const HeadScores scores =
        ScoreHeads(context, tiny->model(), held_out, kScored, hooks);
    life.best = Most(scores.prefix);
    life.previous = Most(scores.previous);
    life.final_loss =
        LossWith(context, tiny->model(), held_out, kScored, hooks);
    for (Series* series : {&life.prefix, &life.loss}) {
      series->x.push_back(static_cast<double>(step));
    }
    life.prefix.y.push_back(life.best);
    life.loss.y.push_back(life.final_loss);
  };
  look(0);
  tiny->Train(
      data, clock,
      [&](const StepReport& report) {
        if (smear) smear->Step(context, 3 * report.rate);
        const int64_t done = report.step + 1;
        if (done % kEvery == 0 || done == steps) look(done);
      },
      hooks);
  return life;
}

// Steps from the last score ≤ .1 to the first ≥ .4, as a share of all; 1
// where there is no rise.
double RiseShare(const Series& prefix) {
  double last_low = 0;
  for (size_t i = 0; i < prefix.y.size(); ++i) {
    if (prefix.y[i] >= kInduction) {
      return (prefix.x[i] - last_low) / prefix.x.back();
    }
    if (prefix.y[i] <= kLow) last_low = prefix.x[i];
  }
  return 1;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const int64_t steps = StudySteps(request, 1000, 4000);
  StudyClock clock(request, "emergence",
                   static_cast<int64_t>(3 * result.seeds.size()) * steps);
  LinePlot prefix{"Prefix-matching score of the best head, seed 1",
                  "steps",
                  "score",
                  false,
                  false,
                  {}};
  LinePlot loss{"Loss of repeated tokens (nats), seed 1",
                "steps",
                "loss",
                false,
                false,
                {}};
  StudyTable table{
      "At the end, best head of each model",
      {"model", "prefix matching", "previous token", "loss of repeats"},
      {}};
  const std::vector<std::vector<Life>> lives =
      RunCases(context, std::size(kModels), result.seeds,
               [&](Context& own, size_t which, uint64_t seed) {
                 return Live(own, kModels[which], seed, steps, clock);
               });
  for (size_t i = 0; i < std::size(kModels); ++i) {
    const Kind& kind = kModels[i];
    std::vector<double> best, previous, losses, rises;
    for (const Life& life : lives[i]) {
      best.push_back(life.best);
      previous.push_back(life.previous);
      losses.push_back(life.final_loss);
      rises.push_back(RiseShare(life.prefix));
    }
    prefix.series.push_back(lives[i][0].prefix);
    loss.series.push_back(lives[i][0].loss);
    table.rows.push_back({kind.name, ShowInterval(OverSeeds(best, kShare)),
                          ShowInterval(OverSeeds(previous, kShare)),
                          ShowInterval(OverSeeds(losses, kNotNegative))});
    const std::string name = fmt::format("{}: prefix matching", kind.name);
    if (kind.layers == 1 && !kind.smeared) {
      result.AtMost(name, OverSeeds(best, kShare), kLow);
      continue;
    }
    result.AtLeast(name, OverSeeds(best, kShare), kInduction);
    if (kind.layers == 2) {
      result.AtMost("two layers: share of the steps that the rise takes",
                    OverSeeds(rises, kShare), 0.3);
    }
  }
  result.pictures.push_back(std::move(prefix));
  result.pictures.push_back(std::move(loss));
  result.tables.push_back(std::move(table));
  return result;
}

}  // namespace
}  // namespace emergence_study

const Study kEmergenceStudy = {
    .name = "emergence",
    .claim =
        "Specialised heads emerge in training: induction heads appear "
        "suddenly, in two layers or with smeared keys, not in one layer.",
    .expectation =
        "best prefix-matching score ≥ .4 with two layers, ≤ .1 with "
        "one, ≥ .4 with one layer of smeared keys",
    .kind = StudyKind::kLiterature,
    .run = emergence_study::Run,
    .trained = true};

}  // namespace headwise
