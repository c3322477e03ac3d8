// headwise evaluate: the loss of a model with any heads closed.
#include <fmt/core.h>

#include <memory>
#include <string>

#include "commands.h"
#include "console.h"
#include "headwise/error.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/heads/pruning/plan.h"
#include "headwise/report/text.h"
#include "prune_material.h"

namespace headwise {
namespace {

struct Options {
  RunFlags run;
  TextFlags text = {.paths = {}, .tokens = 8192, .context = 0, .reading = {}};
  std::string drop;
  std::string plan;
  std::string replace = "zero";
  uint64_t seed = 0;
};

HeadSet ClosedBy(const Options& options, const Checkpoint& checkpoint) {
  if (options.plan.empty()) {
    return ParseHeads(options.drop, checkpoint.model());
  }
  return ReadPlan(options.plan, checkpoint.model(), checkpoint.hash()).removed;
}

void PrintText(const Evaluation& result, size_t closed) {
  fmt::print("{} loss on {} of {} tokens, 95 % intervals over the sequences\n",
             Name(result.loss_kind), Counted(result.sequences, "sequence"),
             result.tokens);
  fmt::print("whole   {}\n", ToText(result.loss));
  if (closed == 0) return;
  fmt::print("closed  {}  ({})\n", ToText(result.closed),
             Counted(static_cast<int64_t>(closed), "head"));
  fmt::print("change  {}\n", ToText(result.change, true));
}

int Run(const Options& options) {
  if (!options.drop.empty() && !options.plan.empty()) {
    throw UsageError("expected either --drop or --plan");
  }
  if (options.replace != "zero" && options.replace != "mean") {
    throw UsageError("--replace: expected zero or mean; found " +
                     options.replace);
  }
  const PruneMaterial material = ReadPruneMaterial(options.run, options.text);
  const HeadSet closed = ClosedBy(options, material.checkpoint);
  Context context(options.run.engine.context());
  ProgressBar bar;
  const Evaluation result =
      Evaluate(context, material.model(), material.examples, closed,
               options.replace == "mean" ? Criterion::kAblationMean
                                         : Criterion::kAblationZero,
               CorpusOptionsFor(material, bar, options.seed));
  if (!options.run.json) {
    PrintText(result, closed.size());
    return kSucceeded;
  }
  Json json = {{"format", "headwise.evaluation/1"},
               {"model", options.run.model},
               {"loss_kind", Name(result.loss_kind)},
               {"sequences", result.sequences},
               {"tokens", result.tokens},
               {"loss", ToJson(result.loss)}};
  std::vector<std::string> heads;
  for (const HeadRef& head : closed) heads.push_back(ToString(head));
  json["closed_heads"] = heads;
  json["closed"] = ToJson(result.closed);
  json["change"] = ToJson(result.change);
  fmt::print("{}\n", json.dump(2));
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run);
  AddTextFlags(line, options->text,
               "Stop after so many tokens, at the end of a window; 0: all",
               "Tokens of a window; 0: 256 or what the model knows")
      .Required();
  line.Option("--drop", options->drop,
              "Heads to close: 5.1,6.0 (layer.head, from 0); cross:5.1 and "
              "decoder:5.1 in encoder–decoders");
  line.Option("--plan", options->plan, "The heads of a plan that prune wrote");
  line.Option("--replace", options->replace,
              "What stands in for closed heads: zero, or mean (over this "
              "text)")
      .ShowDefault();
  line.Option("--seed", options->seed, "Of masks and intervals").ShowDefault();
  return [options] { return Run(*options); };
}

}  // namespace

const Command kEvaluateCommand = {
    .name = "evaluate",
    .group = Group::kPrune,
    .summary = "The loss of a model on a text, with any heads closed",
    .examples =
        "  headwise evaluate models/minimind2-small --text held-out.txt\n"
        "  headwise evaluate models/gpt2 --text wiki.txt --drop 5.1,6.0\n"
        "  headwise evaluate models/gpt2 --text wiki.txt --plan plan.json "
        "--replace mean",
    .setup = Setup};

}  // namespace headwise
