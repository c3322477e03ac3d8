// Claim: some heads are negative: the model is better without them.
// Expectation: closing some heads improves the loss on the split they were
//   chosen on; on another split they gain less, and fewer of them help.
// Kind: literature (Michel et al. 2019 found half of the significant heads
//   better removed; choosing the best of many on one split flatters).
#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "headwise/heads/importance/ranking.h"
#include "headwise/study/study.h"
#include "headwise/study/support/story.h"

namespace headwise {
namespace {

constexpr int64_t kSequences = 64;  // of each split

// Loss without each head minus loss with it.
struct Splits {
  std::vector<HeadRef> heads;
  std::vector<Interval> selection, confirmation;
};

Splits Ablate(Context& context, const Model& model, const StudyText& text) {
  RankOptions options;
  options.criteria = {Criterion::kAblationZero};
  options.replicates = 500;
  const auto rank = [&](uint64_t seed) {
    return RankHeads(context, model,
                     StoryExamples(text.held_out, seed, kSequences), options);
  };
  Ranking first = rank(kHeldOutSeed), second = rank(kSecondHeldOutSeed);
  return {std::move(first.heads), std::move(first.criteria[0].heads),
          std::move(second.criteria[0].heads)};
}

struct Counts {
  double chosen = 0;     // help on the selection split
  double confirmed = 0;  // of them: help on the other too
  double certain = 0;    // of them: with an interval below 0 there
  double gain = 0, gain_confirmed = 0;  // mean over the chosen, in nats
};

Counts Count(const Splits& splits) {
  Counts counts;
  for (size_t h = 0; h < splits.heads.size(); ++h) {
    if (splits.selection[h].value >= 0) continue;
    ++counts.chosen;
    counts.confirmed += splits.confirmation[h].value < 0 ? 1 : 0;
    counts.certain += splits.confirmation[h].high < 0 ? 1 : 0;
    counts.gain -= splits.selection[h].value;
    counts.gain_confirmed -= splits.confirmation[h].value;
  }
  if (counts.chosen > 0) {
    counts.gain /= counts.chosen;
    counts.gain_confirmed /= counts.chosen;
  }
  return counts;
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

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const StudyText text = OpenStudyText(request);
  const int64_t steps = StudySteps(request, 400, 3000);
  StudyClock clock(request, "negative",
                   steps * static_cast<int64_t>(result.seeds.size()));
  std::vector<double> chosen, confirmed, certain, optimism;
  for (const uint64_t seed : result.seeds) {
    TinyModel tiny(
        context,
        TinyLlama({.layers = 4, .heads = 8, .vocabulary = text.vocabulary}),
        StoryTraining(seed, steps));
    tiny.Train(MadeBatches(seed, text.train), clock);
    const Splits splits = Ablate(context, tiny.model(), text);
    const Counts counts = Count(splits);
    chosen.push_back(counts.chosen);
    confirmed.push_back(counts.confirmed / std::max(counts.chosen, 1.0));
    certain.push_back(counts.certain);
    optimism.push_back(counts.gain - counts.gain_confirmed);
    if (seed == result.seeds.front()) Draw(splits, result);
  }
  result.AtLeast("heads of 32 that help when closed, selection split",
                 OverSeeds(chosen), 1);
  result.AtMost("share of them that help on the confirmation split",
                OverSeeds(confirmed), 0.999);
  result.AtLeast("mean gain of the chosen: selection − confirmation, nats",
                 OverSeeds(optimism), 0);
  result.Report("certainly negative (interval below 0 on the other split)",
                OverSeeds(certain));
  result.remark = fmt::format(
      "32 heads trained on {}, closed one by one (zero ablation), {} sequences "
      "a split. Negative heads of large models are no riddle: copy suppression "
      "explains the best known ones (McDougall et al. 2023).",
      text.name, kSequences);
  return result;
}

}  // namespace

const Study kNegativeStudy = {
    .name = "negative",
    .claim = "Some heads are negative: the model is better without them.",
    .expectation =
        "some heads help when closed on the split they were chosen on; on "
        "another split fewer do, and they gain less",
    .kind = StudyKind::kLiterature,
    .run = Run,
    .trained = true,
    .any_device = true};

}  // namespace headwise
