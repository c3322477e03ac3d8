// Claim: how many heads a model uses depends on width, depth, task and
//   training; that some can be pruned does not mean that few would have done.
// Expectation: the effective number of heads, exp of the entropy of their
//   importances, is below the number of heads everywhere and differs between
//   models; half the heads, chosen from a trained model, do no worse than as
//   many trained from scratch.
// Kind: hypothesis.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "headwise/heads/importance/ranking.h"
#include "headwise/runtime/gates.h"
#include "headwise/study/story.h"
#include "headwise/study/study.h"

namespace headwise {
namespace {

constexpr int64_t kHeads = 8;
constexpr int64_t kSequences = 32;

struct Variant {
  const char* name;
  TinyShape shape;
  bool repeats = false;  // the task: random words repeated, nothing else
};

std::vector<Variant> Variants() {
  const TinyShape base{.layers = 2, .heads = kHeads, .width = 64};
  std::vector<Variant> variants = {{"base: width 64, 2 layers, stories", base}};
  TinyShape shape = base;
  shape.width = 32;
  variants.push_back({"width 32", shape});
  shape.width = 128;
  variants.push_back({"width 128", shape});
  shape = base;
  shape.layers = 1;
  variants.push_back({"1 layer", shape});
  shape.layers = 4;
  variants.push_back({"4 layers", shape});
  variants.push_back({"task: repeats only", base, true});
  return variants;
}

// Importances of a model's heads, summed up.
struct Effective {
  double number = 0;
  double heads = 0;
  Ranking ranking;

  double share() const { return number / heads; }
};

Effective Measure(Context& context, const Model& model,
                  const MadeBatches::Maker& make) {
  RankOptions options;
  options.criteria = {Criterion::kAblationMean};
  options.replicates = 100;
  Effective effective;
  effective.ranking = RankHeads(
      context, model, StoryExamples(make, kHeldOutSeed, kSequences), options);
  effective.number = effective.ranking.criteria[0].effective;
  effective.heads = static_cast<double>(effective.ranking.heads.size());
  return effective;
}

class Bench {
 public:
  Bench(Context& context, const StudyText& text, uint64_t seed, int64_t steps,
        StudyClock& clock)
      : context_(context),
        text_(text),
        seed_(seed),
        steps_(steps),
        clock_(clock) {}

  std::unique_ptr<TinyModel> Train(
      TinyShape shape, const MadeBatches::Maker& make,
      const std::function<void(const TinyModel&, int64_t step)>& on_step = {}) {
    shape.vocabulary = text_.vocabulary;
    TrainConfig how = StoryTraining(seed_, steps_);
    how.batch = 8;
    auto tiny = std::make_unique<TinyModel>(context_, TinyLlama(shape), how);
    tiny->Train(MadeBatches(seed_, make), clock_,
                [&](const StepReport& report) {
                  if (on_step) on_step(*tiny, report.step + 1);
                });
    return tiny;
  }

  double Loss(const Model& model, RunHooks* hooks = nullptr) const {
    const TrainBatch batch =
        MadeBatches(kSecondHeldOutSeed, text_.held_out).Make(0, kSequences);
    return MeanLoss(TargetProbabilities(context_, model, batch, hooks));
  }

 private:
  Context& context_;
  const StudyText& text_;
  uint64_t seed_;
  int64_t steps_;
  StudyClock& clock_;
};

// The less important half of the heads.
std::vector<HeadRef> WorseHalf(const Ranking& ranking) {
  std::vector<size_t> order(ranking.heads.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return ranking.criteria[0].heads[a].value <
           ranking.criteria[0].heads[b].value;
  });
  std::vector<HeadRef> worse;
  for (size_t i = 0; i < order.size() / 2; ++i) {
    worse.push_back(ranking.heads[order[i]]);
  }
  return worse;
}

// Losses on the second split of what stands for "fewer heads".
struct Fewer {
  double whole = 0;
  double pruned = 0;   // the worse half closed, nothing trained again
  double scratch = 0;  // as many heads of that size from the beginning
  double one = 0;      // one head of the whole width
};

Fewer TryFewer(Context& context, Bench& bench, const StudyText& text,
               const TinyModel& whole, const Ranking& ranking) {
  Fewer fewer;
  fewer.whole = bench.Loss(whole.model());
  ClosedHeads closed(whole.model(), WorseHalf(ranking));
  fewer.pruned = bench.Loss(whole.model(), &closed);
  TinyShape shape{.layers = 2, .heads = kHeads / 2, .width = 64};
  shape.head_dim = 64 / kHeads;
  fewer.scratch = bench.Loss(bench.Train(shape, text.train)->model());
  shape.heads = 1;
  shape.head_dim = 64;
  fewer.one = bench.Loss(bench.Train(shape, text.train)->model());
  return fewer;
}

// The number of heads we would start from. Heads of at least 16 dimensions in
// small models and 64 in larger ones (128 from width 4096 on, and for long
// texts, where a head has more keys to tell apart): what is narrower loses
// (head-count), and a head of width d_k can rank at most d_k + 1 keys freely
// (rank).
struct Advice {
  int64_t width, layers, length;
  const char* what;
};
constexpr Advice kAdvice[] = {{64, 2, 64, "very small"},
                              {256, 6, 512, "the size of the shipped model"},
                              {768, 12, 1024, "base"},
                              {8192, 80, 8192, "very large"},
                              {4096, 32, 131072, "very long"}};

int64_t AdvisedHeadDim(const Advice& advice) {
  if (advice.width <= 128) return 16;
  if (advice.width <= 512) return 32;
  const bool wide = advice.width >= 4096 || advice.length > 16384;
  return wide ? 128 : 64;
}

StudyTable AdviceTable() {
  StudyTable table{"How many heads to begin with",
                   {"model", "width", "layers", "tokens", "heads", "head_dim",
                    "maps, MiB a layer"},
                   {}};
  for (const Advice& advice : kAdvice) {
    const int64_t head_dim = AdvisedHeadDim(advice);
    const int64_t heads = advice.width / head_dim;
    const double maps = 4.0 * static_cast<double>(heads) *
                        static_cast<double>(advice.length) *
                        static_cast<double>(advice.length) / (1 << 20);
    table.rows.push_back({advice.what, std::to_string(advice.width),
                          std::to_string(advice.layers),
                          std::to_string(advice.length), std::to_string(heads),
                          std::to_string(head_dim),
                          fmt::format("{:.4g}", maps)});
  }
  return table;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const StudyText text = OpenStudyText(request);
  std::vector<Variant> variants = Variants();
  if (!text.story) variants.pop_back();
  const int64_t steps = StudySteps(request, 250, 2000);
  StudyClock clock(request, "effective-heads",
                   steps * static_cast<int64_t>((variants.size() + 2) *
                                                result.seeds.size()));
  std::vector<std::vector<double>> shares(variants.size());
  std::vector<std::vector<double>> numbers(variants.size());
  std::vector<double> heads(variants.size());
  std::vector<double> whole, pruned, scratch, one;
  Series growth{"base, while training", {}, {}};
  const MadeBatches::Maker repeats = [](Rng& rng) {
    return NextToken(MakeRepeats(rng));
  };
  for (const uint64_t seed : result.seeds) {
    Bench bench(context, text, seed, steps, clock);
    for (size_t v = 0; v < variants.size(); ++v) {
      const bool watch = v == 0 && seed == result.seeds.front();
      const int64_t every = std::max<int64_t>(1, steps / 8);
      const auto tiny = bench.Train(
          variants[v].shape, variants[v].repeats ? repeats : text.train,
          [&](const TinyModel& now, int64_t step) {
            if (!watch || step % every != 0) return;
            growth.x.push_back(static_cast<double>(step));
            growth.y.push_back(
                Measure(context, now.model(), text.held_out).number);
          });
      const Effective effective =
          Measure(context, tiny->model(),
                  variants[v].repeats ? repeats : text.held_out);
      shares[v].push_back(effective.share());
      numbers[v].push_back(effective.number);
      heads[v] = effective.heads;
      if (v > 0) continue;
      const Fewer fewer =
          TryFewer(context, bench, text, *tiny, effective.ranking);
      whole.push_back(fewer.whole);
      pruned.push_back(fewer.pruned);
      scratch.push_back(fewer.scratch);
      one.push_back(fewer.one);
    }
  }
  StudyTable table{"Effective number of heads, by mean ablation",
                   {"model", "heads", "effective", "share"},
                   {}};
  double least = 1, most = 0;
  for (size_t v = 0; v < variants.size(); ++v) {
    const double share = MeanOf(shares[v]);
    least = std::min(least, share);
    most = std::max(most, share);
    table.rows.push_back({variants[v].name, fmt::format("{:.0f}", heads[v]),
                          ShowInterval(OverSeeds(numbers[v])),
                          fmt::format("{:.2f}", share)});
  }
  result.AtMost("largest share of heads that is effective", most, 0.95);
  result.AtLeast("largest ÷ smallest share over width, depth and task",
                 most / least, 1.2);
  result.AtMost("loss of half the heads: pruned − from scratch",
                MeanOf(pruned) - MeanOf(scratch), 0);
  result.Report("loss of the whole model", OverSeeds(whole));
  result.Report("loss of half its heads, pruned", OverSeeds(pruned));
  result.Report("loss of as many from scratch", OverSeeds(scratch));
  result.Report("loss of one head of the whole width", OverSeeds(one));
  result.tables.push_back(std::move(table));
  result.tables.push_back(AdviceTable());
  result.pictures.push_back(LinePlot{"Effective heads of 16 while training",
                                     "step",
                                     "heads",
                                     false,
                                     false,
                                     {std::move(growth)}});
  result.remark = fmt::format(
      "Trained on {}. Pruned heads were closed without training again. The "
      "advice rests on the widths that lose nothing (study head-count) and on "
      "what a head of a given width can rank (study rank), not on these small "
      "models alone.",
      text.name);
  return result;
}

}  // namespace

const Study kEffectiveHeadsStudy = {
    .name = "effective-heads",
    .claim =
        "How many heads a model uses depends on width, depth, task and "
        "training; prunable does not mean needless.",
    .expectation =
        "fewer effective heads than heads, in shares that differ; half the "
        "heads pruned from a trained model no worse than trained alone",
    .kind = StudyKind::kHypothesis,
    .run = Run,
    .trained = true};

}  // namespace headwise
