// Models that choose heads. Door: head_choice.h.
#include "headwise/study/support/head_choice.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "headwise/base/fields.h"
#include "headwise/heads/importance/examples.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/model/head_ref.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/gates.h"
#include "headwise/study/support/kept_numbers.h"
#include "headwise/study/support/pruned.h"

namespace headwise {
namespace {

constexpr const char* kWorth = "worth of heads";
constexpr const char* kSigns = "signs of heads";
constexpr int64_t kWorthTokens = int64_t{1} << 15;
constexpr int64_t kLossTokens = int64_t{1} << 17;
constexpr int64_t kBatchTokens = 4096;
constexpr uint64_t kFreshOrder = 100000;  // of windows, added to the seed
constexpr uint64_t kQuarters = 5;         // sets, the same for every model

JudgedText Judge(Context& context, const Model& model,
                 const std::vector<TextExample>& text) {
  CorpusOptions options;
  options.batch_tokens = kBatchTokens;
  return {context, model, text, options};
}

std::vector<double> ValuesOf(const HeadWorth& worth) {
  std::vector<double> values = {worth.loss, worth.all, worth.quarter};
  values.insert(values.end(), worth.single.begin(), worth.single.end());
  return values;
}

HeadWorth WorthIn(const std::vector<double>& values) {
  return {values[0], values[1], values[2], {values.begin() + 3, values.end()}};
}

void Add(const std::vector<Interval>& intervals, std::vector<double>& values) {
  for (const Interval& one : intervals) {
    values.insert(values.end(), {one.value, one.low, one.high});
  }
}

// {third, first …, second …}
std::vector<double> ValuesOf(const HeadSigns& signs) {
  std::vector<double> values = {signs.third};
  Add(signs.first, values);
  Add(signs.second, values);
  return values;
}

HeadSigns SignsIn(const std::vector<double>& values) {
  HeadSigns signs;
  signs.third = values[0];
  const size_t half = values.size() / 2;
  for (size_t i = 1; i < values.size(); i += 3) {
    (i <= half ? signs.first : signs.second)
        .push_back({values[i], values[i + 1], values[i + 2]});
  }
  return signs;
}

// Split number `split` of so many held-out tokens. Tests read less: the
// request's effort shortens this too.
std::vector<TextExample> HeldOut(const Language& language,
                                 const StudyRequest& request, int64_t tokens,
                                 int64_t split = 0) {
  constexpr int64_t kLeast = 2;  // windows
  const int64_t count = std::max<int64_t>(
      std::llround(static_cast<double>(language.held_out(tokens)) *
                   std::min(1.0, request.effort)),
      kLeast);
  return ExamplesOf(language.Windows(split * count, count));
}

// Of each head closed alone.
std::vector<Interval> ChangesOf(const JudgedText& text, const Model& model) {
  std::vector<HeadSet> sets;
  for (const HeadRef& head : AllHeads(model)) sets.push_back({head});
  std::vector<Interval> changes;
  for (const std::vector<double>& losses : text.Closed(sets, nullptr)) {
    changes.push_back(text.Compared(losses).change);
  }
  return changes;
}

}  // namespace

HeadSet DrawHeads(const Model& model, int64_t count, uint64_t seed) {
  HeadSet heads = AllHeads(model);
  Rng rng(seed, 1);
  for (int64_t i = 0; i < count; ++i) {
    std::swap(heads[i], heads[rng.Between(i, std::ssize(heads) - 1)]);
  }
  heads.resize(count);
  return heads;
}

HeadChoice::HeadChoice(Context& context, const StudyRequest& request,
                       int64_t steps)
    : request_(request),
      language_(context, request),
      steps_(steps),
      worth_text_(HeldOut(language_, request, kWorthTokens)),
      loss_text_(HeldOut(language_, request, kLossTokens)),
      second_text_(HeldOut(language_, request, kLossTokens, 1)),
      third_text_(HeldOut(language_, request, kLossTokens, 2)) {}

TrainConfig HeadChoice::Training(uint64_t seed) const {
  return language_.WithRepeats(language_.Training(seed, steps_));
}

std::unique_ptr<TinyModel> HeadChoice::NewModel(Context& context,
                                                const LanguageShape& shape,
                                                const Json& choice,
                                                const TrainConfig& how) const {
  return language_.NewModel(context, shape, how, choice);
}

TrainConfig HeadChoice::TrainingOn(uint64_t seed, int64_t steps) const {
  TrainConfig how =
      language_.WithRepeats(language_.Training(seed + kFreshOrder, steps));
  how.repeat_share = how.repeat_share_late;
  how.rate *= kTuningRate;
  return how;
}

std::unique_ptr<TinyModel> HeadChoice::Copied(Context& context,
                                              const TinyModel& whole,
                                              const Json& choice,
                                              const TrainConfig& how) const {
  auto tiny = NewModel(context, {}, choice, how);
  for (const auto& [name, entry] : whole.store().entries()) {
    Copy(context, entry.value, tiny->store().entries().at(name).value);
  }
  tiny->store().Round(context);
  return tiny;
}

std::unique_ptr<TinyModel> HeadChoice::TrainedOnWithout(
    Context& context, const TinyModel& whole, const HeadSet& closed,
    const TrainConfig& how, StudyClock& clock) const {
  auto tiny = Copied(context, whole, {}, how);
  ClosedHeads hooks(tiny->model(), closed);
  tiny->Train(*language_.Train(how), clock, {},
              closed.empty() ? nullptr : &hooks);
  return tiny;
}

std::vector<double> HeadChoice::LossesOf(Context& context, const Model& model,
                                         std::span<const HeadSet> closed,
                                         InPlace in_place) const {
  const JudgedText text = Judge(context, model, loss_text_);
  if (in_place == InPlace::kZero) return LossesClosed(text, closed);
  CorpusOptions options;
  options.batch_tokens = kBatchTokens;
  const HeadOutputs means = MeansOver(context, model, worth_text_, options);
  std::vector<double> losses;
  for (const std::vector<double>& row : text.Closed(closed, &means)) {
    losses.push_back(text.Mean(row));
  }
  return losses;
}

double HeadChoice::LossOf(Context& context, const Model& model,
                          const HeadSet& closed) const {
  const JudgedText text = Judge(context, model, loss_text_);
  return closed.empty() ? text.loss() : LossesClosed(text, {{closed}})[0];
}

HeadWorth HeadChoice::WorthOf(Context& context, const Model& model) const {
  const std::vector<HeadRef> heads = AllHeads(model);
  std::vector<HeadSet> sets = {heads};
  for (uint64_t draw = 1; draw <= kQuarters; ++draw) {
    sets.push_back(DrawHeads(model, std::ssize(heads) / 4, draw));
  }
  for (const HeadRef& head : heads) sets.push_back({head});
  const JudgedText text = Judge(context, model, worth_text_);
  std::vector<double> rises = LossesClosed(text, sets);
  for (double& rise : rises) rise -= text.loss();
  HeadWorth worth;
  worth.loss = LossOf(context, model);
  worth.all = rises[0];
  worth.quarter = MeanOf(std::span(rises).subspan(1, kQuarters));
  worth.single.assign(rises.begin() + 1 + kQuarters, rises.end());
  return worth;
}

HeadSigns HeadChoice::SignsOf(Context& context, const Model& model) const {
  HeadSigns signs;
  signs.first = ChangesOf(Judge(context, model, loss_text_), model);
  signs.second = ChangesOf(Judge(context, model, second_text_), model);
  const std::vector<HeadRef> heads = AllHeads(model);
  HeadSet negative;
  for (size_t h = 0; h < heads.size(); ++h) {
    if (signs.Negative(h)) negative.push_back(heads[h]);
  }
  if (negative.empty()) return signs;
  const JudgedText third = Judge(context, model, third_text_);
  signs.third = LossesClosed(third, {{negative}})[0] - third.loss();
  return signs;
}

std::unique_ptr<TinyModel> HeadChoice::Train(Context& context,
                                             const TrainConfig& how,
                                             StudyClock& clock) const {
  auto tiny = NewModel(context, {}, {}, how);
  tiny->Train(*language_.Train(how), clock);
  return tiny;
}

std::unique_ptr<TinyModel> HeadChoice::Trained(Context& context,
                                               const TrainConfig& how,
                                               StudyClock& clock) const {
  auto tiny = Train(context, how, clock);
  if (request_.keep.empty()) return tiny;
  const Model& model = tiny->model();
  Recall(kWorth, {}, {}, how,
         [&] { return ValuesOf(WorthOf(context, model)); });
  Recall(kSigns, {}, {}, how,
         [&] { return ValuesOf(SignsOf(context, model)); });
  return tiny;
}

HeadWorth HeadChoice::WorthAfter(Context& context, const TrainConfig& how,
                                 StudyClock& clock) const {
  return WorthIn(Recall(kWorth, {}, {}, how, [&] {
    return ValuesOf(WorthOf(context, Train(context, how, clock)->model()));
  }));
}

HeadSigns HeadChoice::SignsAfter(Context& context, const TrainConfig& how,
                                 StudyClock& clock) const {
  return SignsIn(Recall(kSigns, {}, {}, how, [&] {
    return ValuesOf(SignsOf(context, Train(context, how, clock)->model()));
  }));
}

std::vector<double> HeadChoice::Recall(
    const std::string& what, const LanguageShape& shape, const Json& choice,
    const TrainConfig& how,
    const std::function<std::vector<double>()>& make) const {
  return KeptNumbers(request_.keep,
                     {{"what", what},
                      {"text", language_.hash()},
                      {"model", language_.Config(shape)},
                      {"choice", choice},
                      {"training", FieldsToJson(how)}},
                     make);
}

}  // namespace headwise
