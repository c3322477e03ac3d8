// headwise prune: heads that leave a model for good, and what that costs and
// gains.
#include <fmt/core.h>

#include <memory>
#include <string>

#include "commands.h"
#include "console.h"
#include "headwise/base/atomic_file.h"
#include "headwise/heads/pruning/plan.h"
#include "headwise/report/text.h"
#include "prune_curve.h"
#include "prune_options.h"
#include "prune_plan.h"
#include "prune_proof.h"
#include "prune_repair.h"

namespace headwise {
namespace {

// What cannot be done is said before the work.
void RequirePossible(const PruneOptions& options,
                     const PruneMaterial& material) {
  SplitText(material.examples);
  if (options.keep < 0) return;
  const Model& model = material.model();
  ChooseHeads(model, std::vector<double>(AllHeads(model).size()),
              options.choice());
}

int Run(const PruneOptions& options) {
  options.run.engine.Require();
  CheckUsage(options);
  ParseRepairs(options.repair);
  RequireWritable(options.plan_out);
  if (!options.curve.empty()) RequireWritable(options.curve + ".json");
  RequireNewFolder(options.out, options.replace());
  const PruneMaterial material = ReadPruneMaterial(options.run, options.text);
  RequirePossible(options, material);
  const Model& model = material.model();
  Context context(options.run.engine.context());
  Pruner pruner(options, material, context);
  ProgressBar bar;
  const JudgedText judge(context, model, pruner.parts().judge,
                         CorpusOptionsFor(material, bar, options.seed));
  std::string search;
  if (!options.curve.empty()) {
    WriteCurve(options, material, pruner, judge, context);
    if (options.out.empty() && !options.plan_only) return kSucceeded;
  }
  const PruningPlan plan =
      MakePlan(options, material, pruner, judge, context, search);
  RequireRemovable(model, plan.removed, options.empty());
  const Json json = ToJson(plan, model);
  if (!options.plan_out.empty()) {
    WriteFileAtomically(options.plan_out, json.dump(2) + "\n");
  }
  const size_t heads = AllHeads(model).size();
  if (options.plan_only) {
    fmt::print("{} of {} would leave. Written to {}.\n", plan.removed.size(),
               Counted(static_cast<int64_t>(heads), "head"),
               Visible(options.plan_out));
    return kSucceeded;
  }
  RepairReport repair = pruner.Write(plan.removed);
  Proof proof = Prove(options, material, judge, context);
  proof.repair = std::move(repair);
  proof.search = search;
  if (options.run.json) {
    Json all = {{"format", "headwise.pruning/1"},
                {"plan", json},
                {"repair", options.repair},
                {"out", options.out}};
    all.update(ToJson(proof));
    fmt::print("{}\n", all.dump(2));
  } else {
    PrintProof(options, proof, plan.removed.size(), heads);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<PruneOptions>();
  AddRunFlags(line, options->run, "A model's folder");
  AddTextFlags(line, options->text,
               "Stop after so many tokens, at the end of a window; 0: all. "
               "Three quarters choose the heads, the rest judges",
               "Tokens of a window; 0: 256 or what the model knows")
      .Required();
  line.Option("--keep", options->keep, "Share of the heads that stays: 0.7");
  line.Option("--drop", options->drop,
              "Or the heads that leave: 3.5,4.2 (layer.head, from 0)");
  line.Option("--plan", options->plan, "Or a plan that was written before");
  line.Option("--max-loss", options->max_loss,
              "Or as many as the loss on held-out text allows: +1% of it, or "
              "+0.05 nats; measured with the repairs but finetune");
  line.Option("--target-speedup", options->target_speedup,
              "Or as few as make the prefill of one sequence so many times as "
              "fast: 1.3; measured");
  line.Option("--by", options->by,
              "What chooses: ablation-zero, ablation-mean, "
              "ablation-resample, activation, gradient; or gates, learned "
              "with the model frozen")
      .ShowDefault();
  line.Option("--gate-steps", options->gate_steps, "Training steps of gates")
      .Between(1, 1000000)
      .ShowDefault();
  line.Option("--iterative", options->iterative,
              "Heads leave in so many steps; those left are ranked anew "
              "before each")
      .Between(1, 1000)
      .ShowDefault();
  line.Option("--repair", options->repair,
              "none, or some of fold,least-squares,finetune: what the heads "
              "add on average joins the bias of the output; the output matrix "
              "is fitted anew; all weights are trained further")
      .ShowDefault();
  line.Option("--mean", options->mean,
              "A profile (profile --means) whose means fold takes, instead of "
              "those over the text that chooses");
  line.Option("--finetune-steps", options->finetune_steps,
              "Of 8 windows each; the best of ten looks is kept")
      .Between(1, 1000000)
      .ShowDefault();
  line.Option("--finetune-rate", options->finetune_rate, "Learning rate")
      .ShowDefault();
  line.Flag("--uniform", options->uniform,
            "The same number of heads in every layer");
  line.Flag("--whole-groups", options->whole_groups,
            "Grouped queries: whole groups leave with their keys and values, "
            "so that the cache shrinks");
  line.Flag("--allow-empty", options->allow_empty,
            "A layer may lose all its heads");
  line.Option("--plan-out", options->plan_out, "Write the plan here");
  line.Flag("--plan-only", options->plan_only, "Write the plan, no model");
  line.Option("--out", options->out, "The folder of the smaller model");
  line.Option(
      "--curve", options->curve,
      "Write losses against heads left here, FILE.json, .svg and .html: "
      "by importance, reversed, at random; needs no --out");
  line.Option("--random-orders", options->random_orders, "Of the curve")
      .Between(5, 1000)
      .ShowDefault();
  line.Flag("--force", options->force, "Replace a model at --out");
  line.Flag("--no-timing", options->no_timing, "Do not measure speed");
  line.Option("--seed", options->seed, "Of masks, resampling, intervals")
      .ShowDefault();
  return [options] { return Run(*options); };
}

}  // namespace

const Command kPruneCommand = {
    .name = "prune",
    .group = Group::kPrune,
    .summary = "Remove heads for good, and measure what that costs and gains",
    .examples =
        "  headwise prune models/minimind2-small --text novels/ --keep 0.7 \\\n"
        "      --repair fold --out smaller\n"
        "  headwise prune models/gpt2 --text wiki.txt --drop 5.1,6.0 --out b\n"
        "  headwise prune models/gpt2 --text wiki.txt --keep 0.5 --plan-only "
        "\\\n"
        "      --plan-out plan.json\n"
        "  headwise prune models/gpt2 --text wiki.txt --max-loss +1% \\\n"
        "      --repair fold,least-squares,finetune --out c\n"
        "  headwise prune models/gpt2 --text wiki.txt --curve curve\n"
        "Other commands read the smaller model as any other.",
    .setup = Setup};

}  // namespace headwise
