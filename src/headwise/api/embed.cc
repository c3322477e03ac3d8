// Vectors of texts. Door: include/headwise/embed.h.
#include "headwise/embed.h"

#include <algorithm>
#include <utility>

#include "headwise/api/state.h"
#include "headwise/api/whole_texts.h"
#include "headwise/error.h"
#include "headwise/model/sentence_modules.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/pool.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

SentenceModules ModulesFor(const Transformer& model, const EmbedJob& job) {
  const ModelConfig& config = model.state().checkpoint.config();
  if (config.encoder_decoder()) {
    throw Error(ErrorCode::kUnsupported,
                {"embed", "a model of one stack", "an encoder–decoder", ""});
  }
  SentenceModules modules;
  if (job.pooling == Pooling::kAuto) {
    modules = ReadSentenceModules(model.folder(), config.width);
  } else {
    modules.pooling = {job.pooling};
  }
  if (job.prompt) modules.prompt = *job.prompt;
  if (!modules.prompt.empty() && !modules.pools_prompt) {
    throw Error(ErrorCode::kUnsupported,
                {"embed", "a prompt whose tokens are pooled too",
                 "\"include_prompt\": false", "give an empty `prompt`"});
  }
  const bool normalizes = modules.normalizes();
  if (job.normalize == Normalizing::kYes && !normalizes) {
    modules.steps.emplace_back();
  } else if (job.normalize == Normalizing::kNo && normalizes) {
    modules.steps.pop_back();
  }
  return modules;
}

std::string DescribeModules(const SentenceModules& modules) {
  std::string how;
  for (const Pooling pooling : modules.pooling) {
    how += (how.empty() ? "" : " beside ") + std::string(Name(pooling));
  }
  for (const SentenceStep& step : modules.steps) {
    how += step.dense ? ", dense to " + std::to_string(step.dense.out())
                      : ", normalized";
  }
  return how + (modules.said ? " (modules.json)" : "");
}

void EmbedBatch(Transformer& model, const TextBatch& batch,
                const SentenceModules& modules, VectorRows& rows) {
  Transformer::State& state = model.state();
  const Tensor x = Forward(state.context, state.model(),
                           {.ids = batch.ids,
                            .lengths = batch.lengths,
                            .hooks = state.interventions->hooks()});
  const std::vector<float> states = ToVector<float>(state.context, x.view());
  const int64_t width = x.shape(1);
  size_t at = 0;
  for (const int64_t length : batch.lengths) {
    const auto size = static_cast<size_t>(length * width);
    PoolStates(std::span(states).subspan(at, size), width, modules.pooling,
               rows.values);
    at += size;
  }
}

}  // namespace

const char* Name(Pooling pooling) {
  return FieldWords(pooling)[static_cast<size_t>(pooling)];
}

EmbeddedTexts EmbedTexts(Transformer& model, std::span<const std::string> texts,
                         const EmbedJob& job) {
  const ModelUse use(model);
  const SentenceModules modules = ModulesFor(model, job);
  const ModelConfig& config = model.state().checkpoint.config();
  const int64_t said =
      modules.max_tokens > 0 ? modules.max_tokens : config.context;
  EmbeddedTexts result;
  result.how = DescribeModules(modules);
  result.prompt = modules.prompt;
  const WholeTexts read = ReadWholeTexts(model, texts, modules.prompt,
                                         job.context > 0 ? job.context : said);
  result.cut = read.cut;
  for (const auto& ids : read.ids) result.tokens.push_back(std::ssize(ids));
  VectorRows rows;
  rows.width = config.width * std::ssize(modules.pooling);
  ForBatches(read, [&](const TextBatch& batch) {
    if (job.stop.stop_requested()) {
      throw Error(ErrorCode::kCancelled,
                  {"embed", "to finish", "an interruption", ""});
    }
    EmbedBatch(model, batch, modules, rows);
    if (!job.on_progress) return;
    job.on_progress("embed", static_cast<double>(batch.end),
                    static_cast<double>(texts.size()));
  });
  rows = RunSteps(model.context(), modules.steps, std::move(rows));
  result.vectors = Tensor(DType::kF32, {std::ssize(texts), rows.width});
  std::ranges::copy(rows.values, result.vectors.As<float>());
  return result;
}

}  // namespace headwise
