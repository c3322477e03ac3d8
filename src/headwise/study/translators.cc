// Study translators (literature: Vaswani et al. 2017, Table 3 (A), row by row
// 24.9, 25.5, 25.8, 25.8, 25.4 BLEU with 1, 4, 8, 16, 32 heads). Claim: a
// translator with one head is worse than one with eight; four and sixteen are
// as good as eight. Expectation, written before any of these was trained: of
// translators with equal parameters that read the same pairs in the same order,
// eight heads bring at least .5 BLEU over one (the paper: .9), and four and
// sixteen are within .5 of eight.
// Each number of heads is trained at the rate of .0005, .001 and .002 that
// gave the least development loss on a seed of its own, and judged as it was at
// its least development loss: a rate or a length that suits one number of heads
// must not decide.
// Controls: parameters are equal; beside the translation of another verse the
// same translations score at most 5, so that BLEU tells of the source. Formed:
// eight heads reach 8 BLEU, which is a translation.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/fields.h"
#include "headwise/bleu.h"
#include "headwise/model/family.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/generate.h"
#include "headwise/study/advice/head_sweeps.h"
#include "headwise/study/study.h"
#include "headwise/study/support/chapters.h"
#include "headwise/study/support/kept_numbers.h"
#include "headwise/study/support/tiny_model.h"
#include "headwise/study/support/translation.h"

namespace headwise {
namespace translators_study {
namespace {

constexpr int64_t kHeads[] = {1, 4, 8, 16, 32};
constexpr size_t kOne = 0, kFour = 1, kEight = 2, kSixteen = 3;  // places
constexpr size_t kCounts = std::size(kHeads);
constexpr double kRates[] = {0.0005, 0.001, 0.002};
// Nobody has trained with these.
constexpr uint64_t kPilot = 600;
constexpr uint64_t kFreshSeeds[] = {601, 602, 603, 604, 605};

constexpr int64_t kEvaluations = 10;  // of the development loss
constexpr double kWorthASentence = 0.5, kTranslates = 8,
                 kUnrelated = 5;  // BLEU
constexpr Bounds kBleu = {0, 100};

// Of one training.
struct Outcome {
  double development = std::numeric_limits<double>::infinity();  // the least
  double step = 0;                                               // when
  double parameters = 0;
  double rate = 0;
  double bleu = 0, unrelated = 0;  // beside the own and another reference
};

// A copy of a model in training as it was at one step, in f32.
class BestModel {
 public:
  BestModel(const Context& context, const ModelConfig& config)
      : store_(ParameterStore::Fresh(config, {}, {.device = context.device()})),
        model_(BuildModel(config, store_)) {}

  void Take(Context& context, const ParameterStore& from) {
    for (auto& [name, entry] : store_->entries()) {
      Copy(context, from.entries().at(name).value, entry.value);
    }
  }
  const Model& model() const { return *model_; }

 private:
  std::shared_ptr<ParameterStore> store_;
  std::unique_ptr<Model> model_;
};

class Translators {
 public:
  Translators(Context& context, const StudyRequest& request)
      : context_(context),
        request_(request),
        steps_(StudySteps(request, 150, 2000)),
        chapters_(ReadChapters(request)),
        clock_(request, "translators",
               steps_ * static_cast<int64_t>(
                            kCounts *
                            (std::size(kRates) + StudySeeds(request).size()))) {
    if (request.notes) request.notes->SetText(chapters_.record);
    if (!request.full) {
      shape_.width = 64;
      shape_.layers = 1;
    }
  }

  const Chapters& chapters() const { return chapters_; }

  // One of a seed at the best rate for so many heads.
  Outcome Judged(size_t count, uint64_t seed) {
    const double rate = RateFor(count);
    const std::vector<double> kept = Kept("translator", count, seed, rate);
    return {kept[0], kept[1], kept[2], rate, kept[3], kept[4]};
  }

 private:
  double RateFor(size_t count) {
    const auto [place, is_new] = rates_.try_emplace(count, kRates[0]);
    if (!is_new) return place->second;
    double least = std::numeric_limits<double>::infinity();
    for (const double rate : kRates) {
      const double loss = Kept("pilot", count, kPilot, rate)[0];
      if (loss < least) place->second = rate;
      least = std::min(least, loss);
    }
    return place->second;
  }

  // {least development loss, its step, parameters} and, of what is no pilot,
  // {BLEU, BLEU beside another reference}.
  std::vector<double> Kept(const char* what, size_t count, uint64_t seed,
                           double rate) {
    TrainConfig how = TranslatorTraining(shape_, seed, steps_, request_.full);
    how.rate = rate;
    const Json config = TranslatorConfig(shape_, kHeads[count],
                                         chapters_.tokenizer->vocab_size());
    return KeptNumbers(request_.keep,
                       {{"what", what},
                        {"text", chapters_.record.hash},
                        {"model", config},
                        {"training", FieldsToJson(how)}},
                       [&] { return Train(config, how, seed == kPilot); });
  }

  std::vector<double> Train(const Json& config, const TrainConfig& how,
                            bool pilot) {
    const DType type = context_.device().is_cpu() ? DType::kF32 : DType::kBF16;
    const auto pairs = [&](const std::vector<TokenPair>& of, bool shuffled) {
      return PairBatches(of, {.start = kTranslatorPad,
                              .eos = kTranslatorEos,
                              .shuffled = shuffled,
                              .seed = how.seed});
    };
    const PairBatches train = pairs(chapters_.train, true);
    const PairBatches development = pairs(chapters_.development, false);
    TinyModel tiny(context_, config, how, type);
    BestModel best(context_, tiny.model().config());
    Outcome outcome;
    outcome.parameters = static_cast<double>(tiny.store().Count());
    const int64_t every = std::max<int64_t>(1, how.steps / kEvaluations);
    tiny.Train(train, clock_, [&](const StepReport& report) {
      const int64_t step = report.step + 1;
      if (step % every != 0 && step != how.steps) return;
      const double loss =
          tiny.trainer().Evaluate(development, development.size());
      if (loss >= outcome.development) return;
      outcome.development = loss;
      outcome.step = static_cast<double>(step);
      best.Take(context_, tiny.store());
    });
    if (!pilot) Score(best.model(), outcome);
    return {outcome.development, outcome.step, outcome.parameters, outcome.bleu,
            outcome.unrelated};
  }

  void Score(const Model& model, Outcome& outcome) const {
    std::vector<std::vector<int32_t>> sources;
    for (const TokenPair& pair : chapters_.test) {
      sources.push_back(pair.source);
      sources.back().push_back(kTranslatorEos);
    }
    const auto said = TranslateTogether(context_, model, sources, kLongestSide);
    BleuCounts own, other;
    const size_t count = said.size();
    for (size_t i = 0; i < count; ++i) {
      const auto reference = [&](size_t of) {
        return chapters_.tokenizer->Decode(chapters_.test[of % count].target);
      };
      const std::string text = chapters_.tokenizer->Decode(said[i]);
      own.Add(CountBleu(text, reference(i)));
      other.Add(CountBleu(text, reference(i + count / 2)));
    }
    outcome.bleu = ComputeBleu(own).score;
    outcome.unrelated = ComputeBleu(other).score;
  }

  Context& context_;
  const StudyRequest& request_;
  int64_t steps_;
  Chapters chapters_;
  TranslatorShape shape_;
  StudyClock clock_;
  std::map<size_t, double> rates_;
};

using Outcomes = std::vector<std::vector<Outcome>>;  // by [count][seed]

// Runs of one seed each, side by side with one folder of what is kept, begin
// with another number of heads each, so that each finds the others' pilots.
Outcomes RunAll(Translators& translators, const std::vector<uint64_t>& seeds) {
  Outcomes outcomes(kCounts, std::vector<Outcome>(seeds.size()));
  for (size_t s = 0; s < seeds.size(); ++s) {
    for (size_t i = 0; i < kCounts; ++i) {
      const size_t count = (i + seeds[s]) % kCounts;
      outcomes[count][s] = translators.Judged(count, seeds[s]);
    }
  }
  return outcomes;
}

void JudgeAll(const Outcomes& outcomes, StudyResult& result) {
  const auto bleu = [&](size_t count) {
    return EachOf(outcomes[count], &Outcome::bleu);
  };
  const auto beside = [&](size_t a, size_t b) {
    return DifferenceOverSeeds(bleu(a), bleu(b));
  };
  double least = outcomes[0][0].parameters, most = least;
  for (const std::vector<Outcome>& of_count : outcomes) {
    least = std::min(least, of_count[0].parameters);
    most = std::max(most, of_count[0].parameters);
  }
  result.Expect(StudyKind::kLaw);
  result.Near("parameters: most − least", most - least, 0, 0);
  result.Expect(StudyKind::kLiterature);
  result.Formed("BLEU, h = 8", OverSeeds(bleu(kEight), kBleu), kTranslates);
  result.AtLeast("BLEU, h = 8 − h = 1", beside(kEight, kOne), kWorthASentence);
  result.WithinMargin("BLEU, h = 4 − h = 8", beside(kFour, kEight),
                      kWorthASentence);
  result.WithinMargin("BLEU, h = 16 − h = 8", beside(kSixteen, kEight),
                      kWorthASentence);
  result.AtMost("control: BLEU beside another verse's translation, h = 8",
                OverSeeds(EachOf(outcomes[kEight], &Outcome::unrelated), kBleu),
                kUnrelated);
  result.EndFormed();
}

void ShowAll(const Outcomes& outcomes, StudyResult& result) {
  StudyTable table{fmt::format("Translators of {:.0f} parameters each",
                               outcomes[0][0].parameters),
                   {"heads", "rate", "development loss", "at step", "BLEU",
                    "− BLEU of 8", "Vaswani et al."},
                   {}};
  Series ours{"BLEU", {}, {}}, published{"Vaswani et al.", {}, {}};
  for (size_t i = 0; i < kCounts; ++i) {
    const auto each = [&](double Outcome::*of) {
      return EachOf(outcomes[i], of);
    };
    const SeedMean bleu = OverSeeds(each(&Outcome::bleu), kBleu);
    const SeedMean loss = OverSeeds(each(&Outcome::development), kNotNegative);
    const SeedMean apart = DifferenceOverSeeds(
        each(&Outcome::bleu), EachOf(outcomes[kEight], &Outcome::bleu));
    result.Report(fmt::format("BLEU, h = {}", kHeads[i]), bleu);
    result.Report(fmt::format("development loss, h = {}", kHeads[i]), loss);
    result.Report(fmt::format("rate, h = {}", kHeads[i]), outcomes[i][0].rate);
    table.rows.push_back(
        {std::to_string(kHeads[i]), fmt::format("{}", outcomes[i][0].rate),
         ShowInterval(loss), ShowInterval(OverSeeds(each(&Outcome::step))),
         ShowInterval(bleu), i == kEight ? "–" : ShowInterval(apart),
         fmt::format("{}", kVaswaniHeads[i].bleu)});
    ours.x.push_back(static_cast<double>(kHeads[i]));
    ours.y.push_back(bleu.value);
    published.x.push_back(static_cast<double>(kHeads[i]));
    published.y.push_back(kVaswaniHeads[i].bleu);
  }
  result.tables.push_back(std::move(table));
  result.pictures.push_back(LinePlot{"BLEU of held-out chapters by head count",
                                     "heads",
                                     "BLEU",
                                     true,
                                     false,
                                     {ours, published}});
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  Translators translators(context, request);
  if (request.full && !translators.chapters().given) result.InformOnly();
  const Outcomes outcomes = RunAll(translators, result.seeds);
  JudgeAll(outcomes, result);
  ShowAll(outcomes, result);
  result.remark = fmt::format(
      "Trained on {}; the rate of each number of heads was chosen on seed {} "
      "by "
      "development loss. The published column is Table 3 (A) of Vaswani et al. "
      "2017 (newstest2013, 65 M parameters). A verdict needs pairs in chapters "
      "(--full --text PAIRS.tsv: 3 + 3 layers of width 256).",
      translators.chapters().record.name, kPilot);
  return result;
}

}  // namespace
}  // namespace translators_study

const Study kTranslatorsStudy = {
    .name = "translators",
    .claim =
        "One head translates worse than eight; four and sixteen as well as "
        "eight.",
    .expectation =
        "of equal parameters, each at its best rate and its least development "
        "loss: BLEU of h = 8 at least .5 above h = 1, of 4 and 16 within .5 of "
        "8",
    .kind = StudyKind::kLiterature,
    .run = translators_study::Run,
    .trained = true,
    .any_device = true,
    .fresh_seeds = translators_study::kFreshSeeds};

}  // namespace headwise
