// headwise prune: heads that leave a model for good, and what that costs and
// gains.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "commands.h"
#include "console.h"
#include "flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/drawing/text.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/model_info.h"
#include "headwise/profile.h"
#include "headwise/progress.h"
#include "headwise/prune.h"
#include "interrupt.h"
#include "judge_text.h"
#include "open_model.h"
#include "progress_bar.h"
#include "prune_curve.h"
#include "prune_options.h"
#include "prune_text.h"
#include "prune_timer.h"
#include "ranks.h"

namespace headwise {
namespace prune_command {
namespace {

void CheckBeforeWork(const PruneOptions& options) {
  options.run.engine.Require();
  CheckUsage(options);
  RequireFiles(options.text.input.files);
  RequireFiles(options.judge);
  if (!IsFirstRank()) return;
  RequireWritable(options.plan_out);
  if (!options.curve.empty()) RequireWritable(options.curve + ".json");
  RequireFolder(options.out, options.force, options.run.model);
}

void PrintPlan(const PruneOptions& options, size_t removed, size_t heads) {
  WriteStdout("{} of {} would leave. Written to {}.\n", removed,
              Counted(static_cast<int64_t>(heads), "head"), options.plan_out);
}

void Print(const PruneOptions& options, const Proof& proof,
           const std::string& plan, const HeadShare& share,
           const PromptAnswers& answers) {
  if (!options.run.json) {
    PrintProof(options, proof);
    return answers.Print("before", "after");
  }
  Json all = {{"format", "headwise.pruning/1"},
              {"plan", ParseJson(plan, "plan")},
              {"repair", RepairText(options.job)},
              {"heads_share", ToJson(share)},
              {"out", options.out}};
  all.update(ToJson(proof));
  answers.AddTo(all);
  WriteJson(all.dump(2));
}

// A bar that goes when something is printed.
class PruneBar {
 public:
  OnProgress on_progress() {
    return [this](std::string_view stage, double done, double total) {
      if (bar_ == nullptr) bar_ = std::make_unique<ProgressBar>();
      bar_->on_progress("sequences")(stage, done, total);
    };
  }
  void Clear() { bar_.reset(); }

 private:
  std::unique_ptr<ProgressBar> bar_;
};

PruneJob JobOf(const PruneOptions& options, Transformer& model,
               PairTimer& timer, PruneBar& bar) {
  PruneJob job = options.job;
  if (!options.drop.empty()) job.drop = ParseHeads(options.drop, model);
  job.judge = JudgedTexts(options);
  job.time = timer.On(model.context());
  job.partial = KeptBy(job.partial, options.run, "prune");
  job.on_progress = bar.on_progress();
  job.stop = StopOnInterrupt();
  return job;
}

// The smaller model, measured and asked.
void WriteSmaller(const PruneOptions& options, Transformer& model,
                  HeadPruner& pruner, const PruningPlan& plan,
                  const PairTimer& timer, PruneBar& bar,
                  PromptAnswers& answers) {
  const std::string json = JsonText(plan, model);
  const size_t heads = HeadsOf(model).size();
  const PruneOutcome outcome = pruner.Write(plan, options.out, options.force);
  bar.Clear();
  if (!options.prompts.empty()) {
    Transformer smaller =
        OpenTransformer(options.out, options.run.engine, options.text.reading);
    answers.Ask(smaller);
  }
  Print(options, {plan, outcome, heads, timer.note()}, json,
        ShareOfHeads(model), answers);
}

int Run(const PruneOptions& options) {
  CheckBeforeWork(options);
  PromptAnswers answers(options.prompts);
  Transformer model = OpenTransformer(options.run.model, options.run.engine,
                                      options.text.reading);
  if (!options.run.json) PrintShare(ShareOfHeads(model), options);
  answers.Ask(model);
  PairTimer timer;
  PruneBar bar;
  std::optional<Profile> means;
  if (!options.mean.empty()) means = Profile::Load(options.mean);
  PruneJob job = JobOf(options, model, timer, bar);
  if (means) job.means = &*means;
  HeadPruner pruner(model, options.text.input, job);
  if (!options.curve.empty()) {
    const PruningCurve curve = pruner.Curve(options.random_orders);
    bar.Clear();
    if (IsFirstRank()) WriteCurve(options, model, curve);
    if (options.out.empty() && !options.plan_only) return kSucceeded;
  }
  const PruningPlan plan = pruner.Plan();
  bar.Clear();
  if (!IsFirstRank()) return kSucceeded;
  if (!options.plan_out.empty()) {
    WriteFileAtomically(options.plan_out, JsonText(plan, model) + "\n");
  }
  if (options.plan_only) {
    PrintPlan(options, plan.removed.size(), HeadsOf(model).size());
    return kSucceeded;
  }
  WriteSmaller(options, model, pruner, plan, timer, bar, answers);
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<PruneOptions>();
  AddRunFlags(line, options->run, "A model's folder");
  AddTextFlags(line, options->text).Required();
  line.Option("--drop", options->drop,
              "Or name the heads that leave: 3.5,4.2 (layer.head, from 0)");
  AddFlags(line, options->job);
  line.Option("--mean", options->mean,
              "A profile (profile --means) whose means fold takes, instead of "
              "those over the text that chooses");
  line.Option("--judge", options->judge,
              "Texts that choose nothing: the smaller model is judged on each "
              "by itself, a quarter of --tokens long")
      .Several();
  line.Option("--prompts", options->prompts,
              "A prompt a line: print what the model answers before and after");
  line.Option("--plan-out", options->plan_out, "Write the plan here");
  line.Flag("--plan-only", options->plan_only, "Write the plan, no model");
  line.Option("--out", options->out, "The folder of the smaller model");
  line.Option(
      "--curve", options->curve,
      "Write losses against heads left here, FILE.json, .svg and .html: "
      "by importance, reversed, at random; needs no --out");
  line.Option("--random-orders", options->random_orders,
              "Random orders of leaving that --curve draws")
      .Between(5, 1000)
      .ShowDefault();
  line.Flag("--force", options->force,
            "Replace a model at --out, if its folder holds nothing else");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace prune_command

const Command kPruneCommand = {
    .name = "prune",
    .group = Group::kPrune,
    .summary = "Remove heads for good, and measure what that costs and gains",
    .examples =
        "  headwise prune models/minimind2-small --text novels/ --keep 0.7 \\\n"
        "      --repair fold --judge wiki.txt --prompts prompts.txt --out "
        "smaller\n"
        "  headwise prune models/gpt2 --text wiki.txt --drop 5.1,6.0 --out b\n"
        "  headwise prune models/gpt2 --text wiki.txt --keep 0.5 --plan-only "
        "\\\n"
        "      --plan-out plan.json\n"
        "  headwise prune models/gpt2 --text wiki.txt --max-loss +1% \\\n"
        "      --repair fold,least-squares,finetune --out c\n"
        "  headwise prune models/gpt2 --text wiki.txt --keep 0.5 --by gates "
        "\\\n"
        "      --tune --tune-steps 500 --out d\n"
        "  headwise prune models/gpt2 --text wiki.txt --curve curve\n"
        "Three quarters of the text choose the heads, the rest judges. Other\n"
        "commands read the smaller model as any other.",
    .setup = prune_command::Setup,
    .ranks = true};

}  // namespace headwise
