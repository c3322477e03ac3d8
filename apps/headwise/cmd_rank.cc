// headwise rank: which heads matter, which do not, and which hurt.
#include <memory>
#include <optional>
#include <string>

#include "commands.h"
#include "console.h"
#include "flags.h"
#include "headwise/error.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/rank.h"
#include "headwise/text_input.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"
#include "rank_text.h"
#include "ranks.h"
#include "run_flags.h"

namespace headwise {
namespace rank_command {
namespace {

struct Options {
  RunFlags run;
  TextFlags text = {.input = {.tokens = 8192}, .reading = {}};
  std::string ids;
  std::string profile;
  RankJob rank;
  int64_t top = 20;
};

// Tells heads with a role: of this very model.
std::optional<Profile> ReadProfile(const Options& options,
                                   const Transformer& model) {
  if (options.profile.empty()) return {};
  Profile profile = Profile::Load(options.profile);
  if (profile.model_hash != model.hash()) {
    throw Error(ErrorCode::kInvalidArgument,
                {options.profile, "a profile of " + options.run.model,
                 "one of another model, " + profile.model,
                 "headwise profile makes one of this model"});
  }
  return profile;
}

TextInput ReadInput(const Options& options, const Transformer& model) {
  TextInput input = options.text.input;
  if (!options.ids.empty()) {
    input.ids = ReadIds(options.ids, model.info().vocabulary);
  }
  return input;
}

Ranking Rank(const Options& options) {
  Transformer model = OpenTransformer(options.run.model, options.run.engine,
                                      options.text.reading);
  const TextInput input = ReadInput(options, model);
  const std::optional<Profile> profile = ReadProfile(options, model);
  ProgressBar bar;
  RankJob job = options.rank;
  job.profile = profile ? &*profile : nullptr;
  job.partial = KeptBy(job.partial, options.run, "rank");
  job.on_progress = bar.on_progress("sequences");
  job.stop = StopOnInterrupt();
  return RankHeads(model, input, job);
}

int Run(const Options& options) {
  options.run.engine.Require();
  if (options.text.input.files.empty() == options.ids.empty()) {
    throw UsageError("expected either --text or --ids");
  }
  RequireFiles(options.text.input.files);
  const Ranking ranking = Rank(options);
  if (!IsFirstRank()) return kSucceeded;
  if (options.run.json) {
    WriteJson(WithModel(options.run.model, JsonText(ranking)).dump(2));
  } else {
    PrintRanking(ranking, static_cast<size_t>(options.top), options.rank.pairs);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run, "A model's folder");
  AddWeightMemoryFlag(line, options->run.engine);
  AddTextFlags(line, options->text);
  line.Option("--ids", options->ids,
              "Instead of text: safetensors with input_ids [B, N] and "
              "perhaps attention_mask");
  AddFlags(line, options->rank);
  line.Option("--profile", options->profile,
              "The model's profile: tells heads without a role (noise)");
  line.Option("--top", options->top, "Heads to print; 0: all")
      .ShowDefault()
      .NotNegative();
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace rank_command

const Command kRankCommand = {
    .name = "rank",
    .group = Group::kAnalyse,
    .summary = "Which heads matter, which do not, which hurt",
    .examples =
        "  headwise rank models/minimind2-small --text novels/\n"
        "  headwise rank models/minilm-l6 --text a.txt b.txt.gz \\\n"
        "      --by ablation-zero,ablation-mean,ablation-resample --top 0\n"
        "  headwise rank models/gpt2 --text wiki.txt --pairs --self-repair "
        "--json\n"
        "Each model is judged by its own loss, whose name is printed.",
    .setup = rank_command::Setup,
    .ranks = true};

}  // namespace headwise
