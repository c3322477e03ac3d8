// headwise evaluate: the loss of a model with any heads closed.
#include <fmt/core.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache_flags.h"
#include "commands.h"
#include "console.h"
#include "evaluate_text.h"
#include "flags.h"
#include "headwise/base/json.h"
#include "headwise/evaluate.h"
#include "headwise/head_edit.h"
#include "headwise/head_ref.h"
#include "headwise/loss.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/prune.h"
#include "headwise/text_input.h"
#include "interrupt.h"
#include "judge_text.h"
#include "open_model.h"
#include "progress_bar.h"
#include "ranks.h"
#include "run_flags.h"

namespace headwise {
namespace evaluate_command {
namespace {

struct Options {
  RunFlags run;
  TextFlags text = {.input = {.tokens = 8192}, .reading = {}};
  std::string drop;
  std::string plan;
  std::string replace = "zero";
  std::vector<std::string> mean_text;
  std::string against;
  std::string prompts;
  CacheFlags cache;
  EvaluateJob evaluate;
};

std::vector<HeadRef> ClosedBy(const Options& options,
                              const Transformer& model) {
  return options.plan.empty() ? ParseHeads(options.drop, model)
                              : ReadPlan(options.plan, model);
}

// The replacement of closed heads: nothing, or means over this text, another,
// or that of a profile.
void SetMeans(const Options& options, Transformer& model, EvaluateJob& job) {
  if (options.replace == "zero" && options.mean_text.empty()) return;
  if (options.mean_text.size() == 1 && IsProfile(options.mean_text[0])) {
    job.means = MeanOutputs(model, Profile::Load(options.mean_text[0]));
    return;
  }
  job.mean_text = options.text.input;
  if (!options.mean_text.empty()) job.mean_text->files = options.mean_text;
}

EvaluateJob JobFor(const Options& options, const Transformer& model,
                   ProgressBar& bar) {
  EvaluateJob job = options.evaluate;
  job.closed = ClosedBy(options, model);
  job.partial = KeptBy(job.partial, options.run, "evaluate");
  job.on_progress = bar.on_progress("sequences");
  job.stop = StopOnInterrupt();
  return job;
}

void RunClassifier(const Options& options, Transformer& model) {
  if (options.replace != "zero" || !options.mean_text.empty()) {
    throw UsageError("classifiers: closed heads give 0, --replace zero");
  }
  ProgressBar bar;
  const EvaluateJob job = JobFor(options, model, bar);
  PrintEvaluation(EvaluateLabels(model, options.text.input, job), job.closed,
                  options.run);
}

// Heads keep parts of the text, and none is closed.
void RunCache(const Options& options, Transformer& model) {
  if (model.info().classifies) {
    throw UsageError("--kv-policy: classifiers keep no text");
  }
  const auto choice = ChooseCache(options.cache, model);
  ProgressBar bar;
  LossJob job;
  job.seed = options.evaluate.seed;
  job.partial = KeptBy(options.evaluate.partial, options.run, "evaluate");
  job.on_progress = bar.on_progress();
  job.stop = StopOnInterrupt();
  PrintEvaluation(EvaluateCache(model, options.text.input, choice->policy, job),
                  *choice, options.run, model.hash());
}

// --text: each file or folder by itself.
std::vector<TextInput> TextsApart(const TextInput& text) {
  std::vector<TextInput> texts;
  for (const std::string& path : text.files) {
    TextInput& one = texts.emplace_back(text);
    one.files = {path};
  }
  return texts;
}

// A model, as a pruned one, beside the one that it was made of.
void RunAgainst(const Options& options, Transformer& model) {
  PromptAnswers answers(options.prompts);
  Transformer whole = OpenTransformer(options.against, options.run.engine,
                                      options.text.reading);
  std::vector<ModelJudgement> rows;
  {
    ProgressBar bar;
    LossJob job;
    job.seed = options.evaluate.seed;
    job.partial = KeptBy(options.evaluate.partial, options.run, "evaluate");
    job.on_progress = bar.on_progress("sequences");
    job.stop = StopOnInterrupt();
    rows = CompareModels(whole, model, TextsApart(options.text.input), job);
  }
  answers.Ask(whole);
  answers.Ask(model);
  if (options.run.json) {
    Json json = {{"format", "headwise.evaluation/1"},
                 {"model", options.run.model},
                 {"against", options.against},
                 {"judged", ToJson(std::span<const ModelJudgement>(rows))}};
    answers.AddTo(json);
    WriteJson(json.dump(2));
    return;
  }
  PrintJudged(rows, "whole", "this");
  answers.Print("whole", "this");
}

void CheckAgainst(const Options& options) {
  if (options.against.empty()) {
    if (options.prompts.empty()) return;
    throw UsageError("--prompts asks two models: expected --against");
  }
  if (!options.drop.empty() || !options.plan.empty() ||
      !options.mean_text.empty() || options.cache.policy != "all") {
    throw UsageError(
        "--against compares two models: no head is closed beside it, and none "
        "keeps a part of the text");
  }
}

void CheckUsage(const Options& options) {
  CheckAgainst(options);
  if (!options.drop.empty() && !options.plan.empty()) {
    throw UsageError("expected either --drop or --plan");
  }
  if (options.replace != "zero" && options.replace != "mean") {
    throw UsageError("--replace: expected zero or mean; found " +
                     options.replace);
  }
  RequireFiles(options.text.input.files);
  RequireFiles(options.mean_text);
  RequireCacheFlags(options.cache, options.run.engine);
  if (options.cache.policy != "all" &&
      (!options.drop.empty() || !options.plan.empty())) {
    throw UsageError("--kv-policy: no head is closed beside it");
  }
}

int Run(const Options& options) {
  options.run.engine.Require();
  CheckUsage(options);
  Transformer model = OpenTransformer(options.run.model, options.run.engine,
                                      options.text.reading);
  if (!options.against.empty()) {
    RunAgainst(options, model);
    return kSucceeded;
  }
  if (options.cache.policy != "all") {
    RunCache(options, model);
    return kSucceeded;
  }
  if (model.info().classifies) {
    RunClassifier(options, model);
    return kSucceeded;
  }
  ProgressBar bar;
  EvaluateJob job = JobFor(options, model, bar);
  SetMeans(options, model, job);
  PrintEvaluation(EvaluateHeads(model, options.text.input, job), job.closed,
                  options.run);
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run, "A model's folder");
  AddWeightMemoryFlag(line, options->run.engine);
  AddTextFlags(line, options->text).Required();
  line.Option("--drop", options->drop,
              "Heads to close: 5.1,6.0 (layer.head, from 0); cross:5.1 and "
              "decoder:5.1 in encoder–decoders");
  line.Option("--plan", options->plan, "The heads of a plan that prune wrote");
  line.Option("--replace", options->replace,
              "Replacement of closed heads: zero, or mean (over this "
              "text)")
      .ShowDefault();
  line.Option("--mean", options->mean_text,
              "Means over these texts, or those of a profile (profile "
              "--means), replace closed heads")
      .Several();
  line.Option("--against", options->against,
              "The whole model that this one was made of: losses of both and "
              "their agreement, a row for each --text");
  line.Option("--prompts", options->prompts,
              "With --against, a prompt a line: what both models answer");
  AddCacheFlags(line, options->cache);
  AddFlags(line, options->evaluate);
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace evaluate_command

const Command kEvaluateCommand = {
    .name = "evaluate",
    .group = Group::kPrune,
    .summary = "The loss of a model on a text, with any heads closed",
    .examples =
        "  headwise evaluate models/minimind2-small --text held-out.txt\n"
        "  headwise evaluate models/gpt2 --text wiki.txt --drop 5.1,6.0\n"
        "  headwise evaluate models/gpt2 --text wiki.txt --plan plan.json "
        "--replace mean\n"
        "  headwise evaluate models/gpt2 --text wiki.txt --kv-policy roles\n"
        "  headwise evaluate smaller --text wiki.txt novel.txt --against "
        "models/gpt2",
    .setup = evaluate_command::Setup,
    .ranks = true};

}  // namespace headwise
