// A model beside itself with heads closed. Door: include/headwise/evaluate.h.
#include <memory>
#include <string>
#include <utility>

#include "headwise/api/compared.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/base/stop.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/heads/pruning/plan.h"
#include "headwise/heads/pruning/profile_means.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/generate.h"
#include "headwise/train/bleu.h"

namespace headwise {
namespace {

// other: the text's right() of what is held against the whole model.
std::optional<Compared> RightOf(const JudgedText& text,
                                const std::vector<double>& other) {
  const std::vector<double>& whole = text.right();
  if (whole.empty()) return {};
  return CompareShares(text.bootstrap(), whole, other);
}

// Under the model's edits.
std::vector<BleuCounts> Translate(Transformer& model, const JudgedInput& input,
                                  std::stop_token stop) {
  Transformer::State& state = model.state();
  std::vector<BleuCounts> counts;
  for (const TokenWindow& window : input.windows) {
    ThrowIfStopped(stop, "translate");
    const std::vector<int32_t>& source = window.source.ids;
    GenerateJob job;
    // As transformers' models rarely go beyond; a loop of words must end.
    job.max_tokens = 2 * std::ssize(source) + 16;
    const std::vector<int32_t> ids =
        Generate(state.context, state.model(), source, job,
                 state.interventions->hooks());
    counts.push_back(CountBleu(model.Decode(ids),
                               window.target.text ? *window.target.text : ""));
  }
  return counts;
}

Interval IntervalOf(const BleuEstimate& bleu) {
  return {bleu.score.score, bleu.low, bleu.high};
}

Compared BleuOf(Transformer& model, const JudgedInput& input,
                const EvaluateJob& job) {
  const std::vector<BleuCounts> whole = Translate(model, input, job.stop);
  Compared bleu;
  bleu.whole = bleu.other = IntervalOf(EstimateBleu(whole));
  if (job.closed.empty()) return bleu;
  const Intervention edit =
      model.Edit({.drop = job.closed, .means = job.means});
  const std::vector<BleuCounts> other = Translate(model, input, job.stop);
  bleu.other = IntervalOf(EstimateBleu(other));
  const BleuDifference change = CompareBleu(other, whole);
  bleu.change = {change.value, change.low, change.high};
  return bleu;
}

}  // namespace

HeadEvaluation EvaluateHeads(Transformer& model, const TextInput& text,
                             const EvaluateJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "evaluate");
  for (const HeadRef& head : job.closed) RequireHead(model, head);
  RequireEachOnce(job.closed, "evaluate");
  Transformer::State& state = model.state();
  const JudgedInput input = JudgedInputOf(model, text, job.seed);
  const CorpusOptions options = CorpusOptionsOf(input, job);
  const JudgedText judged(state.context, state.model(), input.examples, options,
                          CountRight::kYes);
  LossTable right = {judged.right()};
  const Evaluation loss =
      job.closed.empty() ? judged.OfWhole()
                         : judged.Compared(judged.Closed(
                               {&job.closed, 1}, job.means.get(),
                               judged.right().empty() ? nullptr : &right)[0]);
  HeadEvaluation result;
  result.kind = loss.loss_kind;
  result.sequences = loss.sequences;
  result.tokens = loss.tokens;
  result.loss = {loss.loss, loss.closed, loss.change};
  result.right = RightOf(judged, right[0]);
  if (model.info().encoder_decoder) result.bleu = BleuOf(model, input, job);
  return result;
}

HeadMeans MeanOutputs(Transformer& model, const Profile& profile) {
  const ModelUse use(model);
  return std::make_shared<const HeadOutputs>(
      MeansOf(profile, model.state().model(), model.hash()));
}

std::vector<HeadRef> ReadPlan(const std::filesystem::path& path,
                              const Transformer& model) {
  return ReadPlan(path, model.state().model(), model.hash()).removed;
}

}  // namespace headwise
