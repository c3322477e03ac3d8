// Study mixture (literature: Jin et al. 2024). Claim: a router that picks a few
// heads for each token keeps the quality of all of them, as long as a balance
// loss spreads the tokens. Expectation: with three quarters of the heads active
// a mixture is as good as all heads; with half of them it is no worse than a
// dense model that has only as many; without the balance loss the router uses
// fewer heads.
#include <fmt/core.h>

#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "headwise/heads/importance/statistics.h"
#include "headwise/study/study.h"
#include "headwise/study/support/pair_task.h"

namespace headwise {
namespace mixture_study {
namespace {

constexpr int64_t kHeads = 8, kShared = 2, kLayers = 2;
// Nats within which two models count as equally good.

struct Arm {
  const char* name;
  int64_t heads;
  int64_t active;  // as heads: dense
  double balance;
};
constexpr Arm kArms[] = {{"8 heads", 8, 8, 0},
                         {"4 heads", 4, 4, 0},
                         {"6 of 8", 8, 6, 0.01},
                         {"4 of 8", 8, 4, 0.01},
                         {"4 of 8, no balance", 8, 4, 0}};
enum { kDense, kSmall, kMost, kHalf, kUnbalanced };

// How many tokens every routed head was open for.
class Loads : public RunHooks {
 public:
  void AfterAttention(const AttentionSite& site, const AttentionProblem&,
                      const AttentionArgs& args) override {
    if (!args.gates) return;
    std::vector<double>& own = counts[site.name];
    own.resize(kHeads - kShared);
    for (int64_t t = 0; t < args.gates.shape[1]; ++t) {
      for (int64_t h = kShared; h < kHeads; ++h) {
        const float gate = args.gates.As<float>()[t * args.gates.stride[1] +
                                                  h * args.gates.stride[2]];
        own[h - kShared] += gate > 0 ? 1 : 0;
      }
    }
  }
  std::map<std::string, std::vector<double>> counts;  // by site
};

std::map<std::string, std::vector<double>> LoadsOf(Context& context,
                                                   const Model& model) {
  Loads loads;
  const TrainBatch batch = HeldOutPairs().Make(0, kHeldOutSequences);
  RunPairs(context, model, batch, loads);
  return loads.counts;
}

// Of one seed.
struct Outcome {
  double loss = 0;
  double used = 0;  // effective routed heads, mean over layers
  std::map<std::string, std::vector<double>> loads;
};

Outcome RunArm(Context& context, const Arm& arm, uint64_t seed, int64_t steps,
               StudyClock& clock) {
  Json config = PairModel(kLayers, arm.heads);
  TrainConfig how = PairTraining(steps, seed);
  how.balance = arm.balance;
  if (arm.active < arm.heads) {
    config["headwise"] = {{"gates", "mixture"},
                          {"shared_heads", kShared},
                          {"active_heads", arm.active}};
  }
  TinyModel tiny(context, config, how);
  tiny.Train(PairData(seed), clock);
  Outcome outcome;
  outcome.loss = PairLoss(context, tiny.model(), {});
  outcome.loads = LoadsOf(context, tiny.model());
  for (const auto& [site, counts] : outcome.loads) {
    outcome.used += EffectiveNumber(counts) / static_cast<double>(kLayers);
  }
  return outcome;
}

using Outcomes = std::vector<std::vector<Outcome>>;  // by [arm][seed]

// Which share of a layer's tokens each routed head was open for.
HeatMap LoadMap(const Outcomes& arms) {
  HeatMap map;
  map.title = "Share of tokens a routed head works for, first seed";
  for (int64_t h = kShared; h < kHeads; ++h) {
    map.columns.push_back("head " + std::to_string(h));
  }
  for (const int arm : {kHalf, kUnbalanced}) {
    int64_t layer = 0;
    for (const auto& [site, counts] : arms[arm][0].loads) {
      map.rows.push_back(fmt::format("layer {}{}", layer++,
                                     arm == kHalf ? "" : ", no balance"));
      const double tokens =
          static_cast<double>(kHeldOutSequences * kPairBlock * kPairBlocks);
      for (const double count : counts) map.values.push_back(count / tokens);
    }
  }
  return map;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  const int64_t steps = StudySteps(request, 400, 1200);
  StudyResult result;
  result.seeds = StudySeeds(request);
  StudyClock clock(
      request, "mixture",
      steps * static_cast<int64_t>(std::size(kArms) * result.seeds.size()));
  StudyTable table{"Held-out loss (nats); effective number of routed heads",
                   {"heads a token uses", "loss", "routed heads in use"},
                   {}};
  const Outcomes arms =
      RunCases(context, std::size(kArms), result.seeds,
               [&](Context& own, size_t arm, uint64_t seed) {
                 return RunArm(own, kArms[arm], seed, steps, clock);
               });
  for (size_t i = 0; i < arms.size(); ++i) {
    const SeedMean used =
        OverSeeds(EachOf(arms[i], &Outcome::used), kNotNegative);
    table.rows.push_back(
        {kArms[i].name,
         ShowInterval(OverSeeds(EachOf(arms[i], &Outcome::loss), kNotNegative)),
         arms[i][0].loads.empty() ? "" : ShowInterval(used)});
  }
  const auto difference = [&](int a, int b, double Outcome::*of) {
    return DifferenceOverSeeds(EachOf(arms[a], of), EachOf(arms[b], of));
  };
  for (const int arm : {kDense, kHalf}) {
    TellPairLoss(fmt::format("held-out loss, {}", kArms[arm].name),
                 EachOf(arms[arm], &Outcome::loss), result);
  }
  result.AtMost("loss, 6 of 8 − all 8",
                difference(kMost, kDense, &Outcome::loss), kEqualPairs);
  result.AtMost("loss, 4 of 8 − dense 4",
                difference(kHalf, kSmall, &Outcome::loss), kEqualPairs);
  result.AtMost("routed heads in use, no balance − balance .01",
                difference(kUnbalanced, kHalf, &Outcome::used), -0.5);
  result.Report("loss, 4 of 8 − all 8",
                difference(kHalf, kDense, &Outcome::loss));
  result.tables = {std::move(table)};
  result.pictures = {LoadMap(arms)};
  result.remark = fmt::format(
      "Two of the heads are shared, the rest routed. Effective number: exp of "
      "the entropy of the load, at most {}.",
      kHeads - kShared);
  return result;
}

constexpr StudyChange kHistory[] = {
    HarderPairs("4096 markers, the n-th 1/n as frequent as the first, a model "
                "half as wide, 8 sequences a step; equally good is within .1 "
                "nats, of .02; 1200 full steps, of "
                "750"),
};
constexpr uint64_t kFreshSeeds[] = {11, 12, 13, 14, 15};

}  // namespace
}  // namespace mixture_study

const Study kMixtureStudy = {
    .name = "mixture",
    .claim = "A router that picks heads for each token keeps their quality.",
    .expectation =
        "dense quality at 75 % active, no worse than as many dense heads at "
        "50 %; without balance fewer heads are used",
    .kind = StudyKind::kLiterature,
    .run = mixture_study::Run,
    .trained = true,
    .revision = 2,
    .history = mixture_study::kHistory,
    .fresh_seeds = mixture_study::kFreshSeeds};

}  // namespace headwise
