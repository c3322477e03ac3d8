// headwise prune: heads that leave a model for good, and what that costs and
// gains.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "commands.h"
#include "console.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/byte_size.h"
#include "headwise/error.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/heads/pruning/choose.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/heads/pruning/plan.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/model/checkpoint.h"
#include "headwise/report/terminal.h"
#include "interrupt.h"
#include "prune_material.h"
#include "prune_timing.h"

namespace headwise {
namespace {

struct Options {
  RunFlags run;
  TextFlags text = {.paths = {}, .tokens = 16384, .context = 0, .reading = {}};
  double keep = -1;
  std::string drop;
  std::string plan;
  std::string by = "ablation-mean";
  std::string repair = "none";
  std::string plan_out;
  std::string out;
  bool uniform = false;
  bool whole_groups = false;
  bool allow_empty = false;
  bool plan_only = false;
  bool force = false;
  bool no_timing = false;
  uint64_t seed = 0;
};

enum class Repair : uint8_t { kNone, kFold };

Repair ParseRepair(const std::string& name) {
  if (name == "none") return Repair::kNone;
  if (name == "fold") return Repair::kFold;
  throw UsageError("--repair: expected none or fold; found " + name);
}

void CheckUsage(const Options& options) {
  const int ways =
      (options.keep >= 0) + !options.drop.empty() + !options.plan.empty();
  if (ways != 1) throw UsageError("expected one of --keep, --drop, --plan");
  if (options.keep > 1) {
    throw UsageError(fmt::format(
        "--keep: expected a share from 0 to 1; found {}", options.keep));
  }
  if (options.plan_only == !options.out.empty()) {
    throw UsageError(options.plan_only ? "--plan-only writes no model: leave "
                                         "out --out, or leave out --plan-only"
                                       : "expected --out FOLDER");
  }
  if (options.plan_only && options.plan_out.empty()) {
    throw UsageError("--plan-only needs --plan-out FILE");
  }
}

// Heads are chosen on the first three quarters of the text, and judged on the
// rest.
struct Parts {
  std::span<const TextExample> choose, judge;
};
Parts Split(std::span<const TextExample> examples) {
  const size_t cut = examples.size() - std::max<size_t>(1, examples.size() / 4);
  if (cut == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {"text",
                 "at least two windows: some to choose by, some to "
                 "judge by",
                 "one", "more text, or a smaller --context"});
  }
  return {examples.first(cut), examples.subspan(cut)};
}

ChooseOptions ChoiceOf(const Options& options) {
  ChooseOptions choose;
  choose.keep = options.keep;
  choose.uniform = options.uniform;
  if (options.whole_groups) choose.unit = GroupUnit::kGroups;
  if (options.allow_empty) choose.empty = EmptyLayers::kAllowed;
  return choose;
}

PruningPlan MakePlan(const Options& options, const PruneMaterial& material,
                     const std::string& hash, Context& context) {
  const Model& model = material.model();
  PruningPlan plan = {.model = options.run.model,
                      .model_hash = hash,
                      .criterion = "given",
                      .removed = {},
                      .scores = {}};
  if (!options.plan.empty()) return ReadPlan(options.plan, model, hash);
  if (!options.drop.empty()) {
    plan.removed = ParseHeads(options.drop, model);
    std::sort(plan.removed.begin(), plan.removed.end());
    return plan;
  }
  const std::vector<Criterion> criteria = ParseCriteria({&options.by, 1});
  if (criteria.size() != 1) {
    throw UsageError("--by: expected one criterion; \"weights\" is two");
  }
  // What cannot be reached is said before the work.
  ChooseHeads(model, std::vector<double>(AllHeads(model).size()),
              ChoiceOf(options));
  ProgressBar bar;
  RankOptions rank;
  rank.criteria = criteria;
  rank.objective = material.objective;
  rank.objective.seed = rank.seed = options.seed;
  rank.progress = bar.callback();
  rank.stop = StopOnInterrupt();
  const Ranking ranking =
      RankHeads(context, model, Split(material.examples).choose, rank);
  plan.criterion = options.by;
  for (const Interval& head : ranking.criteria[0].heads) {
    plan.scores.push_back(head.value);
  }
  plan.removed = ChooseHeads(model, plan.scores, ChoiceOf(options));
  return plan;
}

void WriteModel(const Options& options, const PruneMaterial& material,
                const PruningPlan& plan, Repair repair, Context& context) {
  const Model& model = material.model();
  ChangedTensors changed = RemoveHeads(model, plan.removed);
  if (repair == Repair::kFold && !plan.removed.empty()) {
    ProgressBar bar;
    const CorpusRuns runs(context, model, Split(material.examples).choose,
                          CorpusOptionsFor(material, bar, options.seed));
    FoldMeans(model, plan.removed, runs.means(), changed);
  }
  const std::filesystem::path from(options.run.model);
  WriteChanged(
      from, options.out, changed,
      ConfigWithout(ReadJson(from / "config.json"), model, plan.removed),
      options.force ? Replace::kAllowed : Replace::kRefused);
}

// Losses of a model that is judged by its own output are those of the original
// with the heads closed: the same numbers, and something to compare with.
Evaluation Judge(const Options& options, const PruneMaterial& material,
                 const PruningPlan& plan, const Model& smaller, Repair repair,
                 Context& context) {
  ProgressBar bar;
  const CorpusOptions corpus = CorpusOptionsFor(material, bar, options.seed);
  const auto judge = Split(material.examples).judge;
  if (LossOf(material.model()) == LossKind::kEmbeddingCosine) {
    return Evaluate(context, material.model(), judge, plan.removed,
                    repair == Repair::kFold ? Criterion::kAblationMean
                                            : Criterion::kAblationZero,
                    corpus);
  }
  return EvaluateBoth(context, material.model(), smaller, judge, corpus);
}

int64_t WeightBytes(const std::filesystem::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") {
      bytes += static_cast<int64_t>(entry.file_size());
    }
  }
  return bytes;
}

struct Proof {
  Evaluation loss;
  std::vector<PairTiming> timings;
  std::string note;
  int64_t weights[2] = {0, 0};
  int64_t cache[2] = {0, 0};
};

bool AnyFaster(const Proof& proof) {
  return std::any_of(proof.timings.begin(), proof.timings.end(),
                     [](const PairTiming& timing) {
                       return timing.after_ms < 0.98 * timing.before_ms;
                     });
}

void PrintProof(const Options& options, const Proof& proof, size_t removed,
                size_t heads) {
  fmt::print("{} of {} left {}; {} stay.\n\n", removed,
             Counted(static_cast<int64_t>(heads), "head"),
             Visible(options.run.model), heads - removed);
  StudyTable table;
  table.columns = {"", "before", "after", "ratio"};
  table.rows.push_back({fmt::format("{} loss", Name(proof.loss.loss_kind)),
                        ToText(proof.loss.loss), ToText(proof.loss.closed),
                        ""});
  for (const PairTiming& timing : proof.timings) {
    table.rows.push_back(
        {timing.what + ", tokens/s",
         fmt::format("{:.0f}", 1e3 * timing.tokens / timing.before_ms),
         fmt::format("{:.0f}", 1e3 * timing.tokens / timing.after_ms),
         fmt::format("{:.2f}×", timing.before_ms / timing.after_ms)});
  }
  const auto bytes = [&](const char* what, const int64_t(&both)[2]) {
    if (both[0] == 0) return;
    table.rows.push_back(
        {what, ByteSize(static_cast<uint64_t>(both[0])),
         ByteSize(static_cast<uint64_t>(both[1])),
         fmt::format("{:.2f}", static_cast<double>(both[1]) /
                                   static_cast<double>(both[0]))});
  };
  bytes("weights", proof.weights);
  bytes("cache a token", proof.cache);
  fmt::print("{}", DrawTable(table, StdoutConsole()));
  fmt::print("\nLoss on {} that chose nothing, {} tokens; change {}.\n",
             Counted(proof.loss.sequences, "sequence"), proof.loss.tokens,
             ToText(proof.loss.change, true));
  if (!options.no_timing && !AnyFaster(proof))
    fmt::print("Nothing became faster by 2 %.\n");
  if (!proof.note.empty()) fmt::print("{}\n", proof.note);
  fmt::print("Written to {}.\n", Visible(options.out));
}

Json ToJson(const Proof& proof) {
  Json timings = Json::array();
  for (const PairTiming& timing : proof.timings) {
    timings.push_back({{"what", timing.what},
                       {"tokens", timing.tokens},
                       {"before_ms", timing.before_ms},
                       {"after_ms", timing.after_ms}});
  }
  return {{"loss_kind", Name(proof.loss.loss_kind)},
          {"sequences", proof.loss.sequences},
          {"tokens", proof.loss.tokens},
          {"loss_before", ToJson(proof.loss.loss)},
          {"loss_after", ToJson(proof.loss.closed)},
          {"change", ToJson(proof.loss.change)},
          {"timings", timings},
          {"faster", AnyFaster(proof)},
          {"note", proof.note},
          {"weight_bytes", {proof.weights[0], proof.weights[1]}},
          {"cache_bytes_a_token", {proof.cache[0], proof.cache[1]}}};
}

Proof Prove(const Options& options, const PruneMaterial& material,
            const PruningPlan& plan, Repair repair, Context& context) {
  const auto smaller = OpenModel(options.out);
  Proof proof;
  proof.loss = Judge(options, material, plan, *smaller, repair, context);
  if (!options.no_timing) {
    proof.timings = TimeBoth(context, material.model(), *smaller, proof.note);
  }
  proof.weights[0] = WeightBytes(options.run.model);
  proof.weights[1] = WeightBytes(options.out);
  proof.cache[0] = CacheBytes(material.model());
  proof.cache[1] = CacheBytes(*smaller);
  return proof;
}

int Run(const Options& options) {
  CheckUsage(options);
  const Repair repair = ParseRepair(options.repair);
  RequireWritable(options.plan_out);
  RequireNewFolder(options.out,
                   options.force ? Replace::kAllowed : Replace::kRefused);
  const PruneMaterial material = ReadPruneMaterial(options.run, options.text);
  const std::string& hash = material.checkpoint.hash();
  Context context(options.run.engine.context());
  const PruningPlan plan = MakePlan(options, material, hash, context);
  RequireRemovable(
      material.model(), plan.removed,
      options.allow_empty ? EmptyLayers::kAllowed : EmptyLayers::kRefused);
  const Json json = ToJson(plan, material.model());
  if (!options.plan_out.empty()) {
    WriteFileAtomically(options.plan_out, json.dump(2) + "\n");
  }
  const size_t heads = AllHeads(material.model()).size();
  if (options.plan_only) {
    fmt::print("{} of {} would leave. Written to {}.\n", plan.removed.size(),
               Counted(static_cast<int64_t>(heads), "head"),
               Visible(options.plan_out));
    return kSucceeded;
  }
  WriteModel(options, material, plan, repair, context);
  const Proof proof = Prove(options, material, plan, repair, context);
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
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run);
  AddTextFlags(line, options->text,
               "Stop after so many tokens, at the end of a window; 0: all. "
               "Three quarters choose the heads, the rest judges",
               "Tokens of a window; 0: 256 or what the model knows")
      .Required();
  line.Option("--keep", options->keep, "Share of the heads that stays: 0.7");
  line.Option("--drop", options->drop,
              "Or the heads that leave: 3.5,4.2 (layer.head, from 0)");
  line.Option("--plan", options->plan, "Or a plan that was written before");
  line.Option("--by", options->by,
              "What chooses: ablation-zero, ablation-mean, "
              "ablation-resample, activation, gradient")
      .ShowDefault();
  line.Option("--repair", options->repair,
              "none, or fold: what the heads add on average joins the bias "
              "of the output")
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
        "Other commands read the smaller model as any other.",
    .setup = Setup};

}  // namespace headwise
