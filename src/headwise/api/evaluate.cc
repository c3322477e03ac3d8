// A model beside itself with heads closed. Door: include/headwise/evaluate.h.
#include <array>
#include <bit>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "headwise/api/compared.h"
#include "headwise/api/keep.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/bleu.h"
#include "headwise/heads/importance/loss_table.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/heads/pruning/plan.h"
#include "headwise/heads/pruning/profile_means.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/generate.h"

namespace headwise {
namespace {

// other: the text's right() of what is held against the whole model.
std::optional<Compared> RightOf(const JudgedText& text,
                                const std::vector<double>& other) {
  const std::vector<double>& whole = text.right();
  if (whole.empty()) return {};
  return CompareShares(text.bootstrap(), whole, other);
}

// Its numbers, which doubles hold exactly.
using BleuNumbers = std::array<int64_t, sizeof(BleuCounts) / sizeof(int64_t)>;

// Of each sentence, under the model's edits.
std::vector<BleuCounts> Translate(Transformer& model, const JudgedInput& input,
                                  const PassOptions& pass) {
  Transformer::State& state = model.state();
  TableWork work;
  work.stage = "translate";
  work.rows = std::tuple_size_v<BleuNumbers>;
  for (size_t i = 0; i < input.windows.size(); ++i) work.ends.push_back(i + 1);
  work.run = [&](size_t i, LossTable& columns, const auto&) {
    const TokenWindow& window = input.windows[i];
    const std::vector<int32_t>& source = window.source.ids;
    GenerateJob job;
    // As transformers' models rarely go beyond; a loop of words must end.
    job.max_tokens = 2 * std::ssize(source) + 16;
    const std::vector<int32_t> ids =
        Generate(state.context, state.model(), source, job,
                 state.interventions->hooks());
    const auto numbers = std::bit_cast<BleuNumbers>(CountBleu(
        model.Decode(ids), window.target.text ? *window.target.text : ""));
    for (size_t n = 0; n < numbers.size(); ++n) {
      columns[n][0] = static_cast<double>(numbers[n]);
    }
  };
  const LossTable table = FillTable(pass, work);
  std::vector<BleuCounts> all;
  for (size_t i = 0; i < input.windows.size(); ++i) {
    BleuNumbers numbers;
    for (size_t n = 0; n < numbers.size(); ++n) {
      numbers[n] = static_cast<int64_t>(table[n][i]);
    }
    all.push_back(std::bit_cast<BleuCounts>(numbers));
  }
  return all;
}

Interval IntervalOf(const BleuEstimate& bleu) {
  return {bleu.score.score, bleu.low, bleu.high};
}

Compared BleuOf(Transformer& model, const JudgedInput& input,
                const HeadEdit& edit, const PassOptions& pass) {
  const std::vector<BleuCounts> whole = Translate(model, input, pass);
  Compared bleu;
  bleu.whole = bleu.other = IntervalOf(EstimateBleu(whole));
  if (edit.drop.empty()) return bleu;
  const Intervention closed = model.Edit(edit);
  const std::vector<BleuCounts> other = Translate(model, input, pass);
  bleu.other = IntervalOf(EstimateBleu(other));
  const BleuDifference change = CompareBleu(other, whole);
  bleu.change = {change.value, change.low, change.high};
  return bleu;
}

HeadEvaluation Evaluate(Transformer& model, const JudgedInput& input,
                        const HeadMeans& means, const EvaluateJob& job,
                        const PassOptions& pass) {
  Transformer::State& state = model.state();
  const JudgedText judged(state.context, state.model(), input.examples,
                          CorpusOptionsOf(input, job.seed, pass),
                          CountRight::kYes);
  LossTable right = {judged.right()};
  const Evaluation loss =
      job.closed.empty() ? judged.OfWhole()
                         : judged.Compared(judged.Closed(
                               {&job.closed, 1}, means.get(),
                               judged.right().empty() ? nullptr : &right)[0]);
  HeadEvaluation result;
  result.kind = loss.loss_kind;
  result.sequences = loss.sequences;
  result.tokens = loss.tokens;
  result.loss = {loss.loss, loss.closed, loss.change};
  result.right = RightOf(judged, right[0]);
  if (model.info().encoder_decoder) {
    result.bleu =
        BleuOf(model, input, {.drop = job.closed, .means = means}, pass);
  }
  return result;
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
  JudgedInput mean_input;
  std::string key = TextKey(input.examples);
  if (job.mean_text) {
    mean_input = JudgedInputOf(model, *job.mean_text, job.seed);
    key += ", means over " + TextKey(mean_input.examples);
  }
  const auto run = [&](const PassOptions& pass) {
    HeadMeans means = job.means;
    if (job.mean_text) {
      means = std::make_shared<const HeadOutputs>(
          MeansOver(state.context, state.model(), mean_input.examples,
                    CorpusOptionsOf(mean_input, job.seed, pass)));
    }
    return Evaluate(model, input, means, job, pass);
  };
  return RunKept(model, "evaluate", job, key, ClosedKey(job.closed, job.means),
                 run);
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
