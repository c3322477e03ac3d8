// Claim: at fixed width the number of heads has an optimum with two sides: one
//   head is too few, and heads of a few dimensions are too narrow.
// Expectation: parameters are equal for every h; h = 1 is the worst of 1 … 16;
//   4 to 16 are about equal; heads of at most 4 dimensions lose again.
// Kind: hypothesis. Vaswani et al. 2017, Table 3 (A), stands beside it.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "headwise/study/story.h"
#include "headwise/study/study.h"
#include "headwise/study/translation.h"

namespace headwise {
namespace {

constexpr int64_t kWidth = 128;
constexpr int64_t kCounts[] = {1, 2, 4, 8, 16, 32, 64, 128};
constexpr size_t kSizes = std::size(kCounts);

struct Published {
  int64_t heads;
  const char* perplexity;
  const char* bleu;
};
// newstest2013, all with 65 M parameters.
constexpr Published kPublished[] = {{1, "5.29", "24.9"},
                                    {4, "5.00", "25.5"},
                                    {8, "4.92", "25.8"},
                                    {16, "4.91", "25.8"},
                                    {32, "5.01", "25.4"}};

struct Sweep {
  std::vector<double> losses[kSizes];  // one a seed
  int64_t parameters[kSizes] = {};
};

Sweep TrainAll(Context& context, const std::vector<uint64_t>& seeds,
               const StudyText& text, int64_t steps, StudyClock& clock) {
  Sweep sweep;
  const std::vector<std::vector<double>> losses = RunCases(
      context, kSizes, seeds, [&](Context& own, size_t i, uint64_t seed) {
        TrainConfig how = StoryTraining(seed, steps);
        how.batch = 8;
        TinyModel tiny(own,
                       TinyGpt2({.layers = 2,
                                 .heads = kCounts[i],
                                 .width = kWidth,
                                 .hidden = 2 * kWidth,
                                 .vocabulary = text.vocabulary,
                                 .context = kStoryLength}),
                       how);
        if (seed == seeds.front()) sweep.parameters[i] = tiny.store().Count();
        tiny.Train(MadeBatches(seed, text.train), clock);
        return tiny.trainer().Evaluate(MadeBatches(kHeldOutSeed, text.held_out),
                                       64);
      });
  std::copy(losses.begin(), losses.end(), sweep.losses);
  return sweep;
}

StudyTable Table(const Sweep& sweep, const std::string& where) {
  StudyTable table{
      fmt::format("{}width {}, two layers, {} parameters each", where, kWidth,
                  sweep.parameters[0]),
      {"heads", "d_k", "held-out loss", "published perplexity", "BLEU"},
      {}};
  for (size_t i = 0; i < kSizes; ++i) {
    std::string perplexity = "–", bleu = "–";
    for (const Published& one : kPublished) {
      if (one.heads != kCounts[i]) continue;
      perplexity = one.perplexity;
      bleu = one.bleu;
    }
    table.rows.push_back(
        {std::to_string(kCounts[i]), std::to_string(kWidth / kCounts[i]),
         ShowInterval(OverSeeds(sweep.losses[i])), perplexity, bleu});
  }
  return table;
}

void Translate(Context& context, const StudyRequest& request,
               StudyResult& result) {
  StudyTable table{"Translation of the pairs given, 2 + 2 layers, width 128",
                   {"heads", "parameters", "BLEU"},
                   {}};
  Series series{"BLEU", {}, {}};
  for (const TranslationScore& score : TrainTranslators(
           context, request, {.width = kWidth, .heads = kCounts})) {
    table.rows.push_back(
        {std::to_string(score.heads), std::to_string(score.parameters),
         fmt::format("{:.2f} [{:.2f}, {:.2f}]", score.bleu.score.score,
                     score.bleu.low, score.bleu.high)});
    series.x.push_back(static_cast<double>(score.heads));
    series.y.push_back(score.bleu.score.score);
    result.Report(fmt::format("BLEU, h = {}", score.heads),
                  score.bleu.score.score);
  }
  result.tables.push_back(std::move(table));
  result.pictures.push_back(LinePlot{"BLEU of held-out pairs by head count",
                                     "heads",
                                     "BLEU",
                                     true,
                                     false,
                                     {series}});
}

// Judges one sweep. `where` begins names and titles.
void Tell(const Sweep& sweep, const std::string& where, StudyResult& result) {
  // Differences seed by seed: what is hard about a seed cancels.
  const auto difference = [&](const auto& value) {
    std::vector<double> values;
    for (size_t s = 0; s < result.seeds.size(); ++s) values.push_back(value(s));
    return OverSeeds(values);
  };
  const auto loss = [&](size_t i, size_t s) { return sweep.losses[i][s]; };
  const auto [least, most] =
      std::minmax_element(sweep.parameters, sweep.parameters + kSizes);
  result.Near(where + "parameters: most − least",
              static_cast<double>(*most - *least), 0, 0);
  result.AtLeast(
      where + "loss of h = 1 − worst of 2 … 16", difference([&](size_t s) {
        return loss(0, s) -
               std::max({loss(1, s), loss(2, s), loss(3, s), loss(4, s)});
      }),
      0);
  result.AtMost(where + "spread of the losses of 4, 8, 16",
                difference([&](size_t s) {
                  const auto [low, high] =
                      std::minmax({loss(2, s), loss(3, s), loss(4, s)});
                  return high - low;
                }),
                0.1);
  result.AtLeast(
      where + "loss of h = 32, 64, 128 (d_k ≤ 4), mean − loss of h = 8",
      difference([&](size_t s) {
        return (loss(5, s) + loss(6, s) + loss(7, s)) / 3 - loss(3, s);
      }),
      0);
  result.tables.push_back(Table(sweep, where));
  Series series{"held-out loss", {}, {}};
  for (size_t i = 0; i < kSizes; ++i) {
    series.x.push_back(static_cast<double>(kCounts[i]));
    series.y.push_back(OverSeeds(sweep.losses[i]).value);
  }
  result.pictures.push_back(
      LinePlot{fmt::format("{}loss by head count at width {}, equal parameters",
                           where, kWidth),
               "heads",
               "nats a token",
               true,
               false,
               {series}});
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  StudyRequest language = request;
  const bool pairs = GivesPairs(request);
  if (pairs) language.texts.clear();
  const StudyText text = OpenStudyText(language);
  // Real words too, where no text was given: a grammar of 52 words asks little
  // of a head's width. They are few, so that more steps would learn by heart.
  const bool read =
      language.texts.empty() && !request.reading.empty() && !pairs;
  const int64_t steps = StudySteps(request, 400, 1500);
  const int64_t reading_steps = read ? StudySteps(request, 400, 400) : 0;
  StudyClock clock(request, "head-count",
                   (steps + reading_steps) * static_cast<int64_t>(kSizes) *
                       std::ssize(result.seeds));
  Tell(TrainAll(context, result.seeds, text, steps, clock), "", result);
  if (read) {
    language.texts = request.reading;
    Tell(TrainAll(context, result.seeds, OpenStudyText(language), reading_steps,
                  clock),
         "shipped text: ", result);
  }
  result.remark = fmt::format(
      "Trained on {}{}. The published column is Table 3 (A) of Vaswani et al. "
      "2017 (newstest2013, 65 M parameters); there too the optimum is flat and "
      "has two sides. A two-column .tsv file as --text adds translation.",
      text.name, read ? ", then on the bytes of the shipped story" : "");
  if (pairs) Translate(context, request, result);
  return result;
}

}  // namespace

const Study kHeadCountStudy = {
    .name = "head-count",
    .claim =
        "At fixed width and equal parameters the number of heads has an "
        "optimum with two sides.",
    .expectation =
        "h = 1 worst of 1 … 16, 4 to 16 about equal, worse again where heads "
        "have at most 4 dimensions",
    .kind = StudyKind::kHypothesis,
    .run = Run,
    .trained = true};

}  // namespace headwise
