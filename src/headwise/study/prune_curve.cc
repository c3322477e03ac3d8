// Study prune-curve (literature: Michel et al. 2019, Voita et al. 2019; claims
// 43 and 44). Claim: many heads can be removed for good, 30–40 % or 70–90 %.
// Expectation, fixed before the first run: heads that leave by importance cost
// less than in a random or the reversed order; the protocol decides how many
// may go: one-shot 20 to 60 %, no fewer when ranked anew between steps, a tenth
// more when what is left is tuned or gates are learned, tuned at least 60 %.
//
// How many may go: up to where the held-out loss has risen by 5 % of what all
// heads together are worth (loss with every head closed − loss). Tuned models
// and gates are held against the whole model trained for as many more steps.
#include "headwise/study/prune_curve.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/pruning/iterate.h"
#include "headwise/nn/head_gates.h"
#include "headwise/study/support/pruned.h"
#include "headwise/study/support/story.h"

namespace headwise {
namespace prune_curve_study {
namespace {

constexpr int64_t kLayers = 4, kHeads = 8, kAll = kLayers * kHeads;
constexpr int64_t kStep = 4;        // heads from point to point
constexpr int64_t kSequences = 64;  // of each split
constexpr double kPrices[] = {0.001, 0.003, 0.01, 0.03, 0.1};
// Weights are there already: a fifth of the rate they were made with.
constexpr double kTuningRate = 0.2;
// Data that the whole model has not seen.
constexpr uint64_t kFresh = 100;

enum Protocol : size_t {
  kOneShot,
  kIterative,
  kTuned,
  kGates,
  kRandom,
  kReversed,
  kRandomTuned,
  kProtocols,
};
constexpr const char* kNames[kProtocols] = {
    "one-shot",      "iterative, ranked anew every 4 heads",
    "tuned",         "learned gates, tuned",
    "random order",  "reversed order",
    "random, tuned",
};
constexpr const char* kShort[kProtocols] = {
    "one-shot", "iterative", "tuned",        "gates",
    "random",   "reversed",  "random, tuned"};

using Points = std::vector<SharePoint>;

double ShareOf(int64_t heads) { return static_cast<double>(heads) / kAll; }

ChooseOptions AnyHeads() {
  ChooseOptions choose;
  choose.keep = 0;
  choose.empty = EmptyLayers::kAllowed;
  return choose;
}

std::vector<double> ScoresOf(Context& context, const Model& model,
                             const std::vector<TextExample>& examples) {
  RankOptions options;
  options.job.by = {Criterion::kAblationZero};
  options.replicates = 50;  // only the values are used
  const Ranking ranking = RankHeads(context, model, examples, options);
  std::vector<double> scores;
  for (const Interval& head : ranking.criteria[0].heads) {
    scores.push_back(head.value);
  }
  return scores;
}

// The sets of kStep, 2·kStep, … heads, all of them left out.
std::vector<Heads> OnGrid(const std::vector<Heads>& sets) {
  std::vector<Heads> grid;
  for (const Heads& set : sets) {
    const int64_t size = std::ssize(set);
    if (size > 0 && size < kAll && size % kStep == 0) grid.push_back(set);
  }
  return grid;
}

Points PointsOf(const CurveOrder& order) {
  Points points;
  for (const CurvePoint& point : order.points) {
    points.push_back({ShareOf(point.removed), point.loss});
  }
  return points;
}

// What one seed told.
struct Told {
  Points points[kProtocols];  // kRandom: of the first order
  double share[kProtocols] = {};
  double loss = 0, no_heads = 0, tuned_loss = 0;
  double area[3] = {};      // importance, reversed, random
  double difference = 0;    // removed − masked, the largest
  double weights_half = 0;  // of attention, with half of the heads
};

class PruneCurve {
 public:
  PruneCurve(Context& context, const StudyRequest& request)
      : context_(context),
        text_(OpenStudyText(request)),
        config_(StoryLlama({.layers = kLayers,
                            .heads = kHeads,
                            .vocabulary = text_.vocabulary})),
        choose_(StoryExamples(text_.held_out, kHeldOutSeed, kSequences)),
        judge_(StoryExamples(text_.held_out, kSecondHeldOutSeed, kSequences)),
        steps_(StudySteps(request, 400, 1500)),
        tuning_(StudySteps(request, 150, 300)),
        seeds_(StudySeeds(request)),
        clock_(request, "prune-curve", std::ssize(seeds_) * StepsOfSeed()) {}

  StudyResult Run() {
    for (const uint64_t seed : seeds_) RunSeed(seed);
    return Tell();
  }

 private:
  static constexpr int64_t kGrid = kAll / kStep - 1;
  int64_t StepsOfSeed() const {
    return steps_ + (1 + 2 * kGrid + std::ssize(kPrices)) * tuning_;
  }

  void RunSeed(uint64_t seed) {
    TinyModel whole(context_, config_, StoryTraining(seed, steps_));
    whole.Train(MadeBatches(seed, text_.train), clock_);
    const std::vector<double> scores =
        ScoresOf(context_, whole.model(), choose_);
    const JudgedText judged(context_, whole.model(), judge_, {});
    Told told;
    told.loss = judged.loss();
    Untuned(seed, whole, scores, judged, told);
    const double rise = kUncounted * (told.no_heads - told.loss);
    Tuned(seed, whole, scores, told);
    for (const Protocol which : {kOneShot, kIterative, kReversed}) {
      told.share[which] = ShareWithin(told.points[which], told.loss + rise);
    }
    for (const Protocol which : {kTuned, kGates, kRandomTuned}) {
      told.share[which] =
          ShareWithin(told.points[which], told.tuned_loss + rise);
    }
    told_.push_back(std::move(told));
  }

  // Nothing is trained again: orders, ranking anew, and real removal.
  void Untuned(uint64_t seed, const TinyModel& whole,
               const std::vector<double>& scores, const JudgedText& judged,
               Told& told) {
    CurveOptions options;
    options.choose = AnyHeads();
    options.points = kAll / kStep;
    options.seed = seed;
    const PruningCurve curve =
        MakeCurve(whole.model(), scores, judged, nullptr, options);
    told.points[kOneShot] = PointsOf(curve.orders[0]);
    told.points[kReversed] = PointsOf(curve.orders[1]);
    told.points[kRandom] = PointsOf(curve.orders[2]);
    told.no_heads = told.points[kOneShot].back().loss;
    told.area[0] = curve.orders[0].area;
    told.area[1] = curve.orders[1].area;
    told.area[2] = curve.random_area.value;
    const double most = told.loss + kUncounted * (told.no_heads - told.loss);
    const auto orders = static_cast<double>(curve.orders.size() - 2);
    for (size_t i = 2; i < curve.orders.size(); ++i) {
      told.share[kRandom] +=
          ShareWithin(PointsOf(curve.orders[i]), most) / orders;
    }
    Iterate(whole, judged, told);
    Remove(whole, scores, judged, told);
  }

  void Iterate(const TinyModel& whole, const JudgedText& judged, Told& told) {
    IterativeWork work;
    work.steps = kAll / kStep;
    work.choose = AnyHeads();
    work.without = [&](const Heads& gone) {
      return ModelWithout(context_, whole, config_, gone);
    };
    work.score = [&](const Model& now) {
      return ScoresOf(context_, now, choose_);
    };
    const std::vector<Heads> sets =
        OnGrid(RemoveInSteps(whole.model(), work).sets);
    const std::vector<double> losses = LossesClosed(judged, sets);
    Points& points = told.points[kIterative];
    points.push_back({0, told.loss});
    for (size_t i = 0; i < sets.size(); ++i) {
      points.push_back({ShareOf(std::ssize(sets[i])), losses[i]});
    }
    points.push_back({1, told.no_heads});
  }

  // Masked and removed for good are the same model, and that one is smaller.
  void Remove(const TinyModel& whole, const std::vector<double>& scores,
              const JudgedText& judged, Told& told) {
    const std::vector<Heads> sets =
        OnGrid(RemovalSets(whole.model(), scores, AnyHeads()));
    const std::vector<double> masked = LossesClosed(judged, sets);
    for (size_t i = 0; i < sets.size(); ++i) {
      const auto smaller = ModelWithout(context_, whole, config_, sets[i]);
      const double loss = judged.Of(*smaller).closed.value;
      told.difference = std::max(told.difference, std::abs(loss - masked[i]));
      if (2 * std::ssize(sets[i]) == kAll) {
        told.weights_half =
            AttentionWeightsOf(*smaller) / AttentionWeightsOf(whole.model());
      }
    }
  }

  static double AttentionWeightsOf(const Model& model) {
    double count = 0;
    for (const AttentionLayer* layer :
         AttentionLayers(model, AttentionKind::kSelf)) {
      for (const Linear* linear : {layer->inputs()[0], &layer->output()}) {
        count += static_cast<double>(linear->in() * linear->out());
      }
    }
    return count;
  }

  TrainConfig TuningOf(uint64_t seed) const {
    TrainConfig how = StoryTraining(seed, tuning_);
    how.rate *= kTuningRate;
    return how;
  }

  // What is trained on: the whole model, what is left by importance and by
  // chance, and gates at every price; side by side.
  void Tuned(uint64_t seed, const TinyModel& whole,
             const std::vector<double>& scores, Told& told) {
    std::vector<Heads> sets = {{}};
    const auto add = [&](const std::vector<double>& by) {
      for (Heads& set : OnGrid(RemovalSets(whole.model(), by, AnyHeads()))) {
        sets.push_back(std::move(set));
      }
    };
    add(scores);
    Rng rng(seed, kFresh);
    std::vector<double> random(scores.size());
    for (double& score : random) score = rng.Uniform();
    add(random);
    const int64_t gates = std::ssize(sets);
    std::vector<SharePoint> made(sets.size() + std::size(kPrices));
    const MadeBatches data(seed + kFresh, text_.train);
    ForEachRun(context_, std::ssize(made), [&](Context& own, int64_t i) {
      if (i >= gates) {
        made[i] = Gated(own, whole, kPrices[i - gates], TuningOf(seed), data);
        return;
      }
      const auto tiny =
          TrainableWithout(own, whole, config_, sets[i], TuningOf(seed));
      tiny->Train(data, clock_);
      made[i] = {ShareOf(std::ssize(sets[i])), LossOn(own, tiny->model())};
    });
    told.tuned_loss = made[0].loss;
    const auto begin = made.begin();
    for (const Protocol which : {kTuned, kRandomTuned, kGates}) {
      told.points[which] = {made[0]};
    }
    const auto put = [&](Protocol which, int64_t from, int64_t to) {
      Points& points = told.points[which];
      points.insert(points.end(), begin + from, begin + to);
      std::stable_sort(points.begin(), points.end(),
                       [](const SharePoint& a, const SharePoint& b) {
                         return a.removed < b.removed;
                       });
    };
    put(kTuned, 1, 1 + kGrid);
    put(kRandomTuned, 1 + kGrid, gates);
    put(kGates, gates, std::ssize(made));
  }

  double LossOn(Context& context, const Model& model) const {
    return JudgedText(context, model, judge_, {}).loss();
  }

  // Gates and weights trained together; closed gates are heads that are gone.
  SharePoint Gated(Context& context, const TinyModel& whole, double price,
                   TrainConfig how, const BatchSource& data) {
    Json config = config_;
    config["headwise"] = {{"gates", "hard_concrete"}};
    how.gate_penalty = price;
    how.gate_rate /= kTuningRate;
    TinyModel gated(context, config, how);
    for (const auto& [name, entry] : whole.store().entries()) {
      std::copy_n(entry.value.As<float>(), entry.value.size(),
                  gated.store().entries().at(name).value.As<float>());
    }
    gated.Train(data, clock_);
    int64_t closed = 0;
    for (const AttentionLayer* layer :
         AttentionLayers(gated.model(), AttentionKind::kSelf)) {
      const Tensor log_alpha =
          ToF32(context, layer->weights().gates.weights().log_alpha);
      for (int64_t h = 0; h < log_alpha.size(); ++h) {
        closed += ConcreteGate(log_alpha.As<float>()[h]) == 0 ? 1 : 0;
      }
    }
    return {ShareOf(closed), LossOn(context, gated.model())};
  }

  template <typename Get>
  std::vector<double> EachOf(const Get& get) const {
    std::vector<double> values;
    for (const Told& told : told_) values.push_back(get(told));
    return values;
  }
  std::vector<double> Shares(Protocol which) const {
    return EachOf([&](const Told& told) { return told.share[which]; });
  }
  SeedMean More(Protocol which, Protocol than) const {
    return DifferenceOverSeeds(Shares(which), Shares(than), kShareDifference);
  }

  StudyResult Tell() const {
    StudyResult result;
    result.seeds = seeds_;
    const auto area = [&](size_t than) {
      return OverSeeds(EachOf(
          [&](const Told& told) { return told.area[0] - told.area[than]; }));
    };
    result.AtMost("mean loss over the curve: importance − random, 5 orders",
                  area(2), 0);
    result.AtMost("mean loss over the curve: importance − reversed", area(1),
                  0);
    const auto share = [](Protocol which) {
      return fmt::format("share of heads that may go, {}", kShort[which]);
    };
    result.Near(share(kOneShot), OverSeeds(Shares(kOneShot), kShare), 0.4, 0.2);
    result.AtLeast(share(kTuned), OverSeeds(Shares(kTuned), kShare), 0.6);
    result.AtLeast("more may go: iterative − one-shot",
                   More(kIterative, kOneShot), 0);
    result.AtLeast("more may go: tuned − one-shot", More(kTuned, kOneShot),
                   0.1);
    result.AtLeast("more may go: gates − one-shot", More(kGates, kOneShot),
                   0.1);
    for (const Protocol which :
         {kIterative, kGates, kRandom, kReversed, kRandomTuned}) {
      result.Report(share(which), OverSeeds(Shares(which), kShare));
    }
    result.Expect(StudyKind::kLaw);
    result.AtMost("loss, removed − masked, the largest difference",
                  MaxOf([](const Told& told) { return told.difference; }),
                  1e-4);
    result.Near("attention weights left with half of the heads",
                MaxOf([](const Told& told) { return told.weights_half; }), 0.5,
                0);
    Draw(result);
    return result;
  }

  template <typename Get>
  double MaxOf(const Get& get) const {
    const std::vector<double> values = EachOf(get);
    return *std::max_element(values.begin(), values.end());
  }

  void Draw(StudyResult& result) const {
    StudyTable table{
        "How many heads of 32 may go", {"protocol", "share that may go"}, {}};
    LinePlot plot;
    plot.title = "Loss by heads removed, seed 1";
    plot.x_label = "share of the heads removed";
    plot.y_label = "held-out loss, nats";
    for (size_t i = 0; i < kProtocols; ++i) {
      const auto which = static_cast<Protocol>(i);
      table.rows.push_back(
          {kNames[which], ShowInterval(OverSeeds(Shares(which), kShare))});
      Series series{kShort[which], {}, {}};
      for (const SharePoint& point : told_[0].points[which]) {
        series.x.push_back(point.removed);
        series.y.push_back(point.loss);
      }
      plot.series.push_back(std::move(series));
    }
    result.tables.push_back(std::move(table));
    result.pictures.push_back(std::move(plot));
    const auto mean = [&](double Told::*member) {
      return OverSeeds(EachOf([&](const Told& told) { return told.*member; }))
          .value;
    };
    result.remark = fmt::format(
        "{} heads trained on {}; ranked on {} sequences (zero ablation), "
        "judged "
        "on {} others. Loss {:.3f} whole, {:.3f} whole and tuned as the pruned "
        "are, {:.3f} with every head closed, {:.3f} by guessing; a rise of 5 % "
        "of what all heads are worth is not counted. A share below 0.05 or "
        "above 0.95 would decide nothing.",
        kAll, text_.name, kSequences, kSequences, mean(&Told::loss),
        mean(&Told::tuned_loss), mean(&Told::no_heads),
        std::log(static_cast<double>(text_.vocabulary)));
  }

  Context& context_;
  StudyText text_;
  Json config_;
  std::vector<TextExample> choose_, judge_;
  int64_t steps_, tuning_;
  std::vector<uint64_t> seeds_;
  StudyClock clock_;
  std::vector<Told> told_;
};

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result = PruneCurve(context, request).Run();
  result.Expect(StudyKind::kLiterature);
  result.InformOnly();
  TellShippedCurve(context, request, result);
  return result;
}

constexpr StudyChange kHistory[] = {
    {.first = "3000 full steps, 1000 of training on",
     .changed = "1500 and 300",
     .why = "half an hour of one core instead of a whole one",
     .commit =
         "Studies: kv-cache lets the fewest heads keep everything, judged "
         "on seeds 11 to 15; prune-curve trains shorter",
     .after_result = false},
};

}  // namespace
}  // namespace prune_curve_study

const Study kPruneCurveStudy = {
    .name = "prune-curve",
    .claim =
        "Many heads can be removed for good: 30–40 %, or 70–90 %; the protocol "
        "decides.",
    .expectation =
        "by importance they cost less than by chance or in reverse; one-shot "
        "20–60 % may go, iterative no fewer, tuned or by gates a tenth more",
    .kind = StudyKind::kLiterature,
    .run = prune_curve_study::Run,
    .trained = true,
    .history = prune_curve_study::kHistory};

}  // namespace headwise
