// headwise rank: which heads matter, which do not, and which hurt.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "commands.h"
#include "headwise/error.h"
#include "headwise/heads/importance/examples.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/heads/similarity/twins.h"
#include "headwise/model/checkpoint.h"
#include "ids_file.h"
#include "interrupt.h"
#include "past_context.h"
#include "progress_bar.h"
#include "rank_keeper.h"
#include "rank_text.h"
#include "ranks.h"
#include "run_flags.h"

namespace headwise {
namespace {

struct Options {
  RunFlags run;
  TextFlags text = {.paths = {}, .tokens = 8192, .context = 0, .reading = {}};
  std::string ids;
  std::string profile;
  std::vector<std::string> by = {"ablation-mean", "activation", "weights"};
  int64_t top = 20;
  double least_hurt = kNegligibleShare;
  bool pairs = false;
  bool repair = false;
  bool per_layer = false;
  uint64_t seed = 0;
  std::string partial;
  double checkpoint = 60;
  bool resume = false;
};

std::string PartialOf(const Options& options) {
  if (!options.partial.empty()) return options.partial;
  return std::filesystem::canonical(options.run.model).filename().string() +
         ".rank.partial";
}

// Losses of one device and type do not go on with another's.
std::string PlaceKey(const EngineFlags& engine) {
  const Device device = engine.context().device;
  if (device.is_cpu()) return "";
  return fmt::format(", {} on a GPU", Name(engine.compute()));
}

// Heads with a role, by a profile of this very model.
std::set<HeadRef> ReadRoles(const Options& options,
                            const Checkpoint& checkpoint) {
  const Profile profile = Profile::Load(options.profile);
  if (profile.model_hash != checkpoint.hash()) {
    throw Error(ErrorCode::kInvalidArgument,
                {options.profile, "a profile of " + options.run.model,
                 "one of another model, " + profile.model, ""});
  }
  return HeadsWithRoles(profile);
}

// The model's tokenizer; null where it has none, which ids do without.
const Tokenizer* TokenizerFor(const Options& options,
                              const Checkpoint& checkpoint) {
  return options.ids.empty() ? &checkpoint.tokenizer()
                             : checkpoint.FindTokenizer();
}

std::vector<TokenWindow> ReadMaterial(const Options& options,
                                      const Model& model,
                                      const Tokenizer* tokenizer) {
  const int64_t context = ShortContext(model.config(), options.text.context);
  if (!options.ids.empty()) return ReadIds(options.ids, context);
  const WindowCutter cutter(*tokenizer, model.config(), {context});
  return ReadWindows(options.text.paths, cutter, options.text.tokens);
}

RankOptions RankingOf(const Options& options, const Tokenizer* tokenizer) {
  RankOptions rank;
  rank.criteria = ParseCriteria(options.by);
  rank.pairs = options.pairs;
  rank.least_negative = options.least_hurt;
  rank.self_repair = options.repair;
  rank.normalise_layers = options.per_layer;
  rank.seed = options.seed;
  rank.stop = StopOnInterrupt();
  if (tokenizer != nullptr) rank.objective = ObjectiveFor(*tokenizer);
  rank.objective.seed = options.seed;
  return rank;
}

Ranking Rank(const Options& options, const Checkpoint& checkpoint,
             std::span<const TokenWindow> windows, RankOptions rank) {
  const Model& model = checkpoint.model();
  const std::vector<TextExample> examples = ExamplesOf(windows);
  RequireEnoughText(model, examples, rank.criteria);
  std::set<HeadRef> with_role;
  if (!options.profile.empty()) {
    with_role = ReadRoles(options, checkpoint);
    rank.has_role = [&](const HeadRef& head) {
      return with_role.contains(head);
    };
  }
  RankKeeper keeper(PartialOf(options),
                    {checkpoint.hash(), TextKey(examples),
                     SettingsKey(rank) + PlaceKey(options.run.engine)},
                    IsFirstRank() ? options.checkpoint : 0);
  if (options.resume) keeper.Resume();
  RankGroup().Barrier();  // the first rank will write its file anew
  Context machine(options.run.engine.context());
  ProgressBar bar;
  rank.kept = &keeper.losses();
  rank.group = &RankGroup();
  rank.progress = [show = bar.callback(), &keeper](const Progress& progress) {
    if (show) show(progress);
    keeper.Tick();
  };
  try {
    std::optional<std::set<HeadRef>> twins;
    if (IsFirstRank()) {
      twins = FindTwins(machine, model, windows, rank.progress, rank.stop);
    }
    if (twins) {
      rank.has_twin = [&](const HeadRef& head) {
        return twins->contains(head);
      };
    }
    Ranking ranking = RankHeads(machine, model, examples, rank);
    if (IsFirstRank()) keeper.Finish();
    return ranking;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled && IsFirstRank()) {
      keeper.ThrowInterrupted();
    }
    throw;
  }
}

int Run(const Options& options) {
  options.run.engine.Require();
  if (options.text.paths.empty() == options.ids.empty()) {
    throw UsageError("expected either --text or --ids");
  }
  RequireFiles(options.text.paths);
  const Checkpoint checkpoint(options.run.model, options.text.reading.options(),
                              options.run.engine.compute());
  const Tokenizer* tokenizer = TokenizerFor(options, checkpoint);
  const RankOptions rank = RankingOf(options, tokenizer);
  const std::vector<TokenWindow> windows =
      ReadMaterial(options, checkpoint.model(), tokenizer);
  WarnPastContext(checkpoint.config(), Longest(windows));
  if (tokenizer != nullptr) WarnUnknownScript(*tokenizer, windows);
  const Ranking ranking = Rank(options, checkpoint, windows, rank);
  if (!IsFirstRank()) return kSucceeded;
  if (options.run.json) {
    Json json = {{"model", options.run.model}};
    json.update(ToJson(ranking));
    fmt::print("{}\n", json.dump(2));
  } else {
    PrintRanking(ranking, static_cast<size_t>(options.top), options.pairs);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run, "A model's folder");
  AddTextFlags(line, options->text,
               "Stop after so many tokens, at the end of a window; 0: all",
               "Tokens of a window; 0: 256 or what the model knows");
  line.Option("--ids", options->ids,
              "Instead of text: safetensors with input_ids [B, N] and "
              "perhaps attention_mask");
  line.Option("--by", options->by,
              "ablation-zero, ablation-mean, ablation-resample, activation, "
              "weights, gradient (also -token, -batch); the first ablation "
              "gives classes")
      .Commas()
      .ShowDefault();
  line.Option("--profile", options->profile,
              "The model's profile: tells heads without a role (noise)");
  line.Option("--top", options->top, "Heads to print; 0: all")
      .ShowDefault()
      .NotNegative();
  line.Option("--least-hurt", options->least_hurt,
              "A head hurts when closing it lowers the loss by more than "
              "this share of it, on both halves of the text. 0: by "
              "anything that is no accident")
      .Between(0.0, 1.0)
      .ShowDefault();
  line.Flag("--pairs", options->pairs,
            "Also close the top 24 heads in pairs: backup heads");
  line.Flag("--repair", options->repair,
            "Also measure self-repair: the part of a head's direct effect on "
            "the right token's logit that later heads take over when it is "
            "closed");
  line.Flag("--per-layer", options->per_layer,
            "Divide gradients by the L2 norm of their layer's");
  line.Option("--seed", options->seed, "Of masks, resampling, intervals")
      .ShowDefault();
  line.Flag("--resume", options->resume,
            "Go on with an interrupted ranking of the same model and text");
  line.Option("--partial", options->partial,
              "Where an interrupted ranking keeps what it has; default: "
              "MODEL.rank.partial here");
  line.Option("--checkpoint", options->checkpoint,
              "Seconds between copies of what it has, which --resume goes on "
              "from if the program is killed; 0: none")
      .NotNegative()
      .ShowDefault();
  return [options] { return Run(*options); };
}

}  // namespace

const Command kRankCommand = {
    .name = "rank",
    .group = Group::kAnalyse,
    .summary = "Which heads matter, which do not, which hurt",
    .examples =
        "  headwise rank models/minimind2-small --text novels/\n"
        "  headwise rank models/minilm-l6 --text a.txt b.txt.gz \\\n"
        "      --by ablation-zero,ablation-mean,ablation-resample --top 0\n"
        "  headwise rank models/gpt2 --text wiki.txt --pairs --repair --json\n"
        "Each model is judged by its own loss, whose name is printed.",
    .setup = Setup,
    .ranks = true};

}  // namespace headwise
