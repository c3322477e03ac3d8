// Study mixture (literature: Jin et al. 2024). Claim: a router that picks a few
// heads for each token keeps the quality of all of them, as long as a balance
// loss spreads the tokens. Expectation: with three quarters of the heads active
// a mixture is as good as all heads; with half of them it is no worse than a
// dense model that has only as many; without the balance loss the router uses
// fewer heads.
#include <fmt/core.h>

#include <algorithm>

#include "headwise/heads/importance/statistics.h"
#include "headwise/study/study.h"
#include "headwise/study/support/pair_task.h"

namespace headwise {
namespace {

constexpr int64_t kHeads = 8, kShared = 2, kLayers = 2;
// Nats within which two models count as equally good.
constexpr double kEqual = 0.02;

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

struct ArmResult {
  std::vector<double> loss;  // by seed
  std::vector<double> used;  // effective routed heads, mean over layers
  std::map<std::string, std::vector<double>> loads;  // of the last seed
};

ArmResult RunArm(Context& context, const std::vector<uint64_t>& seeds,
                 const Arm& arm, int64_t steps, StudyClock& clock) {
  ArmResult result;
  for (const uint64_t seed : seeds) {
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
    result.loss.push_back(PairLoss(context, tiny.model(), {}));
    result.loads = LoadsOf(context, tiny.model());
    double used = 0;
    for (const auto& [site, counts] : result.loads) {
      used += EffectiveNumber(counts) / static_cast<double>(kLayers);
    }
    result.used.push_back(used);
  }
  return result;
}

// Which share of a layer's tokens each routed head was open for.
HeatMap LoadMap(const std::vector<ArmResult>& arms) {
  HeatMap map;
  map.title = "Share of tokens a routed head works for";
  for (int64_t h = kShared; h < kHeads; ++h) {
    map.columns.push_back("head " + std::to_string(h));
  }
  for (const int arm : {kHalf, kUnbalanced}) {
    int64_t layer = 0;
    for (const auto& [site, counts] : arms[arm].loads) {
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
  const int64_t steps = StudySteps(request, 250, 750);
  StudyResult result;
  result.seeds = StudySeeds(request);
  StudyClock clock(
      request, "mixture",
      steps * static_cast<int64_t>(std::size(kArms) * result.seeds.size()));
  StudyTable table{"Held-out loss (nats); effective number of routed heads",
                   {"heads a token uses", "loss", "routed heads in use"},
                   {}};
  std::vector<ArmResult> arms;
  for (const Arm& arm : kArms) {
    arms.push_back(RunArm(context, result.seeds, arm, steps, clock));
    const ArmResult& own = arms.back();
    table.rows.push_back(
        {arm.name, ShowInterval(OverSeeds(own.loss)),
         own.loads.empty() ? "" : ShowInterval(OverSeeds(own.used))});
  }
  result.AtMost("loss, 6 of 8 − all 8",
                DifferenceOverSeeds(arms[kMost].loss, arms[kDense].loss),
                kEqual);
  result.AtMost("loss, 4 of 8 − dense 4",
                DifferenceOverSeeds(arms[kHalf].loss, arms[kSmall].loss),
                kEqual);
  result.AtMost("routed heads in use, no balance − balance .01",
                DifferenceOverSeeds(arms[kUnbalanced].used, arms[kHalf].used),
                -0.5);
  result.Report("loss, 4 of 8 − all 8",
                DifferenceOverSeeds(arms[kHalf].loss, arms[kDense].loss));
  result.tables = {std::move(table)};
  result.pictures = {LoadMap(arms)};
  result.remark = fmt::format(
      "Two of the heads are shared, the rest routed. Effective number: exp of "
      "the entropy of the load, at most {}.",
      kHeads - kShared);
  return result;
}

}  // namespace

const Study kMixtureStudy = {
    .name = "mixture",
    .claim = "A router that picks heads for each token keeps their quality.",
    .expectation =
        "dense quality at 75 % active, no worse than as many dense heads at "
        "50 %; without balance fewer heads are used",
    .kind = StudyKind::kLiterature,
    .run = Run,
    .trained = true};

}  // namespace headwise
