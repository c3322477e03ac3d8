// Claim: some heads are negative: the model is better without them.
// Expectation: at least one head of 32 is certainly negative: closing it lowers
//   the loss with its whole interval below 0 on the split where it was chosen
//   and on another (by chance 32 heads have .02 of these). Closing all of them
//   together lowers the loss of a third split. What heads gain on the split
//   they were chosen on flatters: control.
// Kind: literature (Michel et al. 2019 found half of the significant heads
//   better removed; choosing the best of many on one split flatters).
#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "headwise/heads/importance/ranking.h"
#include "headwise/runtime/gates.h"
#include "headwise/study/study.h"
#include "headwise/study/support/story.h"

namespace headwise {
namespace negative_study {
namespace {

constexpr int64_t kSequences = 256;  // of each split; of a trial run an eighth
constexpr uint64_t kThirdHeldOutSeed = kSecondHeldOutSeed + 1;

// Loss without each head minus loss with it.
struct Splits {
  std::vector<HeadRef> heads;
  std::vector<Interval> selection, confirmation;
};

Splits Ablate(Context& context, const Model& model, const StudyText& text,
              int64_t sequences) {
  RankOptions options;
  options.criteria = {Criterion::kAblationZero};
  options.replicates = 1000;
  const auto rank = [&](uint64_t seed) {
    return RankHeads(context, model,
                     StoryExamples(text.held_out, seed, sequences), options);
  };
  Ranking first = rank(kHeldOutSeed), second = rank(kSecondHeldOutSeed);
  return {std::move(first.heads), std::move(first.criteria[0].heads),
          std::move(second.criteria[0].heads)};
}

struct Counts {
  double chosen = 0;                    // help on the selection split
  double confirmed = 0;                 // of them: help on the other too
  double gain = 0, gain_confirmed = 0;  // mean over the chosen, in nats
  std::vector<HeadRef> certain;         // intervals below 0 on both splits
};

Counts Count(const Splits& splits) {
  Counts counts;
  for (size_t h = 0; h < splits.heads.size(); ++h) {
    if (splits.selection[h].value >= 0) continue;
    ++counts.chosen;
    counts.confirmed += splits.confirmation[h].value < 0 ? 1 : 0;
    if (splits.selection[h].high < 0 && splits.confirmation[h].high < 0) {
      counts.certain.push_back(splits.heads[h]);
    }
    counts.gain -= splits.selection[h].value;
    counts.gain_confirmed -= splits.confirmation[h].value;
  }
  if (counts.chosen > 0) {
    counts.gain /= counts.chosen;
    counts.gain_confirmed /= counts.chosen;
  }
  return counts;
}

// What closing heads together changes on the third split; 0 for none.
double ChangeWithout(Context& context, const Model& model,
                     const StudyText& text, int64_t sequences,
                     const std::vector<HeadRef>& heads) {
  if (heads.empty()) return 0;
  const TrainBatch batch =
      MadeBatches(kThirdHeldOutSeed, text.held_out).Make(0, sequences);
  ClosedHeads hooks(model, heads);
  return MeanLoss(TargetProbabilities(context, model, batch, &hooks)) -
         MeanLoss(TargetProbabilities(context, model, batch));
}

StudyTable Table(const Splits& splits, const std::vector<size_t>& order) {
  StudyTable table{"Change of the loss when a head is closed, best first",
                   {"head", "selection split", "confirmation split"},
                   {}};
  constexpr size_t kShown = 6;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i >= kShown && i + kShown < order.size()) continue;
    const size_t h = order[i];
    table.rows.push_back({ToString(splits.heads[h]),
                          ShowInterval(splits.selection[h]),
                          ShowInterval(splits.confirmation[h])});
  }
  return table;
}

void Draw(const Splits& splits, StudyResult& result) {
  std::vector<size_t> order(splits.heads.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return splits.selection[a].value < splits.selection[b].value;
  });
  result.tables.push_back(Table(splits, order));
  Series chosen{"selection split", {}, {}}, other{"confirmation split", {}, {}};
  // The half that costs least: the rest would flatten the picture.
  for (size_t i = 0; i < order.size() / 2; ++i) {
    chosen.x.push_back(static_cast<double>(i));
    other.x.push_back(static_cast<double>(i));
    chosen.y.push_back(splits.selection[order[i]].value);
    other.y.push_back(splits.confirmation[order[i]].value);
  }
  result.pictures.push_back(
      LinePlot{"Closing one head: the cheaper half, sorted by the first split",
               "head, by rank",
               "change of the loss, nats",
               false,
               false,
               {std::move(chosen), std::move(other)}});
}

// Of one seed.
struct Outcome {
  Splits splits;
  Counts counts;
  double change = 0;  // without all certain heads, third split
};

struct Size {
  int64_t steps, sequences;
};

Outcome RunSeed(Context& context, const StudyText& text, uint64_t seed,
                const Size& size, StudyClock& clock) {
  TinyModel tiny(
      context,
      TinyLlama({.layers = 4, .heads = 8, .vocabulary = text.vocabulary}),
      StoryTraining(seed, size.steps));
  tiny.Train(MadeBatches(seed, text.train), clock);
  Outcome outcome;
  outcome.splits = Ablate(context, tiny.model(), text, size.sequences);
  outcome.counts = Count(outcome.splits);
  outcome.change = ChangeWithout(context, tiny.model(), text, size.sequences,
                                 outcome.counts.certain);
  return outcome;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const StudyText text = OpenStudyText(request);
  const Size size = {StudySteps(request, 400, 2500),
                     request.effort < 1 ? kSequences / 8 : kSequences};
  StudyClock clock(request, "negative",
                   size.steps * static_cast<int64_t>(result.seeds.size()));
  const std::vector<Outcome> outcomes = RunCases(
      context, 1, result.seeds, [&](Context& own, size_t, uint64_t seed) {
        return RunSeed(own, text, seed, size, clock);
      })[0];
  std::vector<double> chosen, confirmed, certain, optimism, change;
  for (const Outcome& one : outcomes) {
    const Counts& counts = one.counts;
    chosen.push_back(counts.chosen);
    confirmed.push_back(counts.confirmed / std::max(counts.chosen, 1.0));
    certain.push_back(static_cast<double>(counts.certain.size()));
    optimism.push_back(counts.gain - counts.gain_confirmed);
    change.push_back(one.change);
  }
  Draw(outcomes[0].splits, result);
  result.AtLeast("heads of 32 that are certainly negative, on both splits",
                 OverSeeds(certain, kNotNegative), 1);
  result.AtMost("loss without all of these − with them, third split, nats",
                OverSeeds(change), 0);
  result.AtLeast("mean gain of the chosen: selection − confirmation, nats",
                 OverSeeds(optimism), 0);
  result.Report("heads of 32 that help when closed, selection split",
                OverSeeds(chosen, kNotNegative));
  result.Report("share of them that help on the confirmation split",
                OverSeeds(confirmed, kShare));
  result.remark = fmt::format(
      "32 heads trained on {}, closed one by one (zero ablation), {} sequences "
      "a split. Negative heads of large models are no riddle: copy suppression "
      "explains the best known ones (McDougall et al. 2023).",
      text.name, size.sequences);
  return result;
}

constexpr StudyChange kHistory[] = {
    {.first = "some heads help on the split they were chosen on, by their "
              "middles: 10 of 32 in a quick run of seed 1, 7 of them on the "
              "other split too",
     .changed = "heads whose intervals are below 0 on both splits, and what "
                "closing these does on a third; 256 sequences a split, of 64; "
                "2500 full steps, of 3000",
     .why = "of heads that do nothing half help on any split",
     .commit = "Studies symmetry, negative and team: figures of every seed, "
               "judged on seeds 11 to 15"},
};
constexpr uint64_t kFreshSeeds[] = {11, 12, 13, 14, 15};

}  // namespace
}  // namespace negative_study

const Study kNegativeStudy = {
    .name = "negative",
    .claim = "Some heads are negative: the model is better without them.",
    .expectation =
        "at least one of 32 heads is certainly negative on both splits, and a "
        "third is better without them; on the split where heads were chosen "
        "they gain more",
    .kind = StudyKind::kLiterature,
    .run = negative_study::Run,
    .trained = true,
    .any_device = true,
    .revision = 2,
    .history = negative_study::kHistory,
    .fresh_seeds = negative_study::kFreshSeeds};

}  // namespace headwise
