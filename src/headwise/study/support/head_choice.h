// What studies of single heads share (head-dropout, gates, mixture, negative,
// removal):
// models of the recipe, which may differ in how they choose heads, trained on
// the same windows in the same order, and what their heads are worth on
// held-out ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/importance/objective.h"
#include "headwise/heads/importance/variants.h"
#include "headwise/study/study.h"
#include "headwise/study/support/novels.h"

namespace headwise {

// Nats within which two models count as equally good: two in a hundred of the
// right token's probability.
inline constexpr double kSameLoss = 0.02;

// Trained weights are there already: a fifth of the rate they were made with.
inline constexpr double kTuningRate = 0.2;

// Nobody has trained with these. One list for all these studies: what they tell
// of a seed is of the same model.
inline constexpr uint64_t kHeadChoiceSeeds[] = {501, 502, 503, 504, 505};

// Where these studies changed their task: `first` is what came of the old one.
constexpr StudyChange FromPairsToRecipe(const char* first,
                                        const char* changed) {
  return {.first = first,
          .changed = changed,
          .why =
              "losses of the pair task are bimodal: their spread over "
              "seeds, .5 nats, is wider than any margin worth a sentence, "
              "and a task of its own says nothing of language",
          .commit = "study: dropout, gates, spans and mixtures on the recipe"};
}

// What closing heads costs, in nats.
struct HeadWorth {
  double loss = 0;             // of the model as it is
  double all = 0;              // closing every head
  double quarter = 0;          // a quarter of them by chance: mean of five sets
  std::vector<double> single;  // each head alone, as AllHeads(model)
};

// What closing heads changes on splits of the held-out text, in nats.
struct HeadSigns {
  std::vector<Interval> first, second;  // each head alone, as AllHeads(model)
  double third = 0;  // all heads that surely help on both when closed, together

  bool Negative(size_t head) const {
    return first[head].high < 0 && second[head].high < 0;
  }
};

// What stands in for closed heads.
enum class InPlace : uint8_t { kZero, kMean };

class HeadChoice {
 public:
  // The recipe is trained for `steps`. Borrows the request.
  HeadChoice(Context& context, const StudyRequest& request, int64_t steps);

  const Language& language() const { return language_; }
  TrainConfig Training(uint64_t seed) const;
  // A model before its training; choice: config.json's "headwise".
  std::unique_ptr<TinyModel> NewModel(Context& context,
                                      const LanguageShape& shape,
                                      const Json& choice,
                                      const TrainConfig& how) const;

  // How a trained model of that seed is trained on: as the recipe ends, at a
  // fifth of its rate, on windows in another order.
  TrainConfig TrainingOn(uint64_t seed, int64_t steps) const;
  // A trained model's weights, to be trained on so; gates and spans that
  // `choice` adds are open.
  std::unique_ptr<TinyModel> Copied(Context& context, const TinyModel& whole,
                                    const Json& choice,
                                    const TrainConfig& how) const;
  // That, with these heads closed all along.
  std::unique_ptr<TinyModel> TrainedOnWithout(Context& context,
                                              const TinyModel& whole,
                                              const HeadSet& closed,
                                              const TrainConfig& how,
                                              StudyClock& clock) const;

  // On held-out windows, the same for every model; less these heads.
  double LossOf(Context& context, const Model& model,
                const HeadSet& closed = {}) const;
  // The same for every set; in the heads' place 0, or what they give on average
  // over other windows.
  std::vector<double> LossesOf(Context& context, const Model& model,
                               std::span<const HeadSet> closed,
                               InPlace in_place) const;
  HeadWorth WorthOf(Context& context, const Model& model) const;
  // Of the recipe trained so.
  HeadWorth WorthAfter(Context& context, const TrainConfig& how,
                       StudyClock& clock) const;
  HeadSigns SignsOf(Context& context, const Model& model) const;
  HeadSigns SignsAfter(Context& context, const TrainConfig& how,
                       StudyClock& clock) const;
  // The same model where it is needed itself; what the others would tell of it
  // is kept.
  std::unique_ptr<TinyModel> Trained(Context& context, const TrainConfig& how,
                                     StudyClock& clock) const;

  // Numbers of a training, made here or kept by an earlier run that was asked
  // for the same: `what` names them.
  std::vector<double> Recall(
      const std::string& what, const LanguageShape& shape, const Json& choice,
      const TrainConfig& how,
      const std::function<std::vector<double>()>& make) const;

 private:
  std::unique_ptr<TinyModel> Train(Context& context, const TrainConfig& how,
                                   StudyClock& clock) const;

  const StudyRequest& request_;
  Language language_;
  int64_t steps_;
  std::vector<TextExample> worth_text_, loss_text_, second_text_, third_text_;
};

// So many of all heads, by chance.
HeadSet DrawHeads(const Model& model, int64_t count, uint64_t seed);

}  // namespace headwise
