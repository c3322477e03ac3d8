// headwise profile: streams text through a model and writes what every head
// does to a file.
#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>

#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/format/token_ids.h"
#include "headwise/heads/profile/definitions.h"
#include "headwise/heads/profile/profile_json.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/heads/pruning/profile_means.h"
#include "headwise/model/checkpoint.h"
#include "headwise/report/terminal.h"
#include "ids_file.h"
#include "interrupt.h"
#include "model_name.h"
#include "past_context.h"
#include "patterns_text.h"
#include "profile_title.h"
#include "progress_bar.h"
#include "prune_material.h"
#include "ranks.h"
#include "roles_text.h"
#include "text_argument.h"
#include "text_reading.h"
#include "word_materials.h"

namespace headwise {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> texts;
  std::string ids;
  WordFiles material;
  std::vector<std::string> patterns;
  std::string metrics = Name(MetricSet::kAll);
  std::string out;
  int64_t context = 0;
  int64_t tokens = 0;
  int64_t min_visible = 8;
  int64_t repeats = 32;
  double checkpoint = 60;
  EngineFlags engine;
  bool sentences = false;
  bool words = false;
  bool means = false;
  bool resume = false;
  bool json = false;
  bool explain = false;
  ReadingFlags reading;
};

std::string PartialOf(const std::string& out) { return out + ".partial"; }

Json DefinitionsOf(std::span<const MetricDefinition> definitions) {
  Json list = Json::array();
  for (const MetricDefinition& definition : definitions) {
    list.push_back({{"name", definition.name},
                    {"what", definition.sentence},
                    {"trap", definition.trap}});
  }
  return list;
}

// The tokens of a model whose rows are left out: "<s> (1)".
std::vector<std::string> SpecialNames(const std::string& model) {
  std::vector<std::string> names;
  if (model.empty()) return names;
  const auto tokenizer = Tokenizer::Find(model);
  for (const int32_t id : SpecialTokens(tokenizer.get(), OpenConfig(model))) {
    const auto token =
        tokenizer == nullptr ? std::nullopt : tokenizer->Token(id);
    names.push_back(fmt::format("{} ({})", token.value_or("#"), id));
  }
  return names;
}

int Explain(const Console& console, const std::string& model, bool json) {
  const std::vector<std::string> special = SpecialNames(model);
  if (json) {
    Json all = {{"metrics", DefinitionsOf(MetricDefinitions())},
                {"forms", DefinitionsOf(MetricForms())},
                {"rows_left_out", DefinitionsOf(RowDefinitions())}};
    if (!model.empty()) all["special_tokens"] = special;
    fmt::print("{}\n", all.dump(2));
    return kSucceeded;
  }
  const auto print = [&](const MetricDefinition& definition) {
    fmt::print("{}\n{}", Bold(console, definition.name),
               Wrap(Capital(definition.sentence) + ".", console.width, 2));
    if (*definition.trap != '\0') {
      fmt::print("{}", Wrap("Beware: " + std::string(definition.trap) + ".",
                            console.width, 2));
    }
  };
  for (const MetricDefinition& definition : MetricDefinitions()) {
    print(definition);
  }
  fmt::print("\nForms of a name\n");
  for (const MetricDefinition& form : MetricForms()) print(form);
  fmt::print("\nRows that are left out\n");
  for (const MetricDefinition& row : RowDefinitions()) print(row);
  if (!special.empty()) {
    fmt::print("{}", Wrap(fmt::format("Special tokens of {}: {}.", model,
                                      AndList(special)),
                          console.width));
  }
  return kSucceeded;
}

std::string Cell(const Estimate& estimate) {
  return std::isfinite(estimate.mean) ? fmt::format("{:.2f}", estimate.mean)
                                      : "–";
}

void Print(const Profile& profile, const Console& console) {
  StudyTable table;
  table.columns = {"head",     "entropy", "distance",  "first",
                   "previous", "local",   "delimiter", "induction*"};
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    std::vector<std::string> row = {ToString(profile.heads[h])};
    for (const char* metric :
         {"entropy.normalised", "distance", "first", "previous", "local",
          "delimiter", "repeats.induction"}) {
      row.push_back(Cell(profile.Get(metric, h)));
    }
    table.rows.push_back(std::move(row));
  }
  fmt::print("{}{}{}", Wrap(ProfileTitle(profile) + ".", console.width),
             DrawTable(table, console),
             Wrap("* on random repeats. Entropy is a share of its maximum.",
                  console.width));
  if (const std::string patterns = DrawPatterns(profile, console);
      !patterns.empty()) {
    fmt::print("\n{}", patterns);
  }
}

// What is asked for, as the profiler takes it. `options` must outlive it.
ProfileOptions ProfilingOf(const Options& options,
                           std::span<Detector> detectors) {
  ProfileOptions profiling;
  profiling.detectors = detectors;
  if (options.metrics == Name(MetricSet::kCore)) {
    profiling.metrics = MetricSet::kCore;
  }
  profiling.context = options.context;
  profiling.tokens = options.tokens;
  profiling.min_visible = options.min_visible;
  profiling.repeats = options.repeats;
  profiling.sentences = options.sentences;
  profiling.words = options.words;
  profiling.checkpoint_seconds = options.checkpoint;
  if (options.checkpoint > 0) {
    profiling.checkpoint = [&](const Profile& profile) {
      profile.Save(PartialOf(options.out));
    };
  }
  profiling.group = &RankGroup();
  profiling.stop = StopOnInterrupt();
  return profiling;
}

// What an earlier call left.
std::optional<Profile> Begun(const Options& options) {
  if (!options.resume) return {};
  const std::string partial = PartialOf(options.out);
  std::error_code unknown;
  if (!std::filesystem::exists(partial, unknown)) {
    throw Error(ErrorCode::kNotFound,
                {partial, "an interrupted profile", "none",
                 "begin without --resume, or name the same --out"});
  }
  Profile begun = Profile::Load(partial);
  RankGroup().Barrier();  // the first rank will write it anew
  return begun;
}

// Adds annotated material; false when it was interrupted, with the profile as
// it was before.
bool AddWords(const WordMaterials& materials, const Options& options,
              Context& context, const Model& model, const Tokenizer* tokenizer,
              ProgressBar& bar, Profile& profile) {
  if (materials.empty()) return true;
  WordOptions words;
  words.context = options.context;
  words.progress = bar.callback();
  words.stop = StopOnInterrupt();
  Profile grown = profile;
  try {
    materials.AddTo(context, model, *tokenizer, words, grown);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
    return false;
  }
  profile = std::move(grown);
  return true;
}

[[noreturn]] void KeepAndStop(const Profile& profile, const Options& options) {
  if (IsFirstRank()) profile.Save(PartialOf(options.out));
  throw Error(ErrorCode::kCancelled,
              {"profile", "to finish", "an interruption",
               fmt::format("{} tokens are kept in {}; the same command with "
                           "--resume goes on",
                           profile.counts.tokens, PartialOf(options.out))});
}

// What heads give on average over the same text, in windows as long.
std::vector<std::vector<double>> ReadMeans(const Options& options,
                                           const ProfileSettings& settings,
                                           Context& context) {
  RunFlags run;
  run.model = options.model;
  run.engine = options.engine;
  const PruneMaterial material = ReadPruneMaterial(
      run, {options.texts, options.tokens, settings.context, options.reading});
  ProgressBar bar;
  return ListMeans(MeansOver(context, material.model(), material.examples,
                             CorpusOptionsFor(material, bar, 0)),
                   material.model());
}

// Inputs are read and judged before the model runs.
Profile Make(const Options& options, std::span<Detector> detectors) {
  const Checkpoint checkpoint(options.model, options.reading.options(),
                              options.engine.compute());
  const Model& model = checkpoint.model();
  const std::string& hash = checkpoint.hash();
  const Tokenizer* tokenizer = checkpoint.FindTokenizer();
  std::optional<Profile> begun = Begun(options);
  const ProfileOptions asked = ProfilingOf(options, detectors);
  std::unique_ptr<TextSource> source;
  std::vector<TokenWindow> windows;
  if (options.ids.empty()) {
    RequireTexts(options.texts);
    source = std::make_unique<TextSource>(options.texts);
    WarnPastContext(model.config(), options.context);
  } else {
    windows = ReadIds(options.ids, options.context);
    for (const TokenWindow& window : windows) {
      RequireTokenIds(window.source.ids, model.config().vocabulary,
                      options.ids);
    }
    RequireRoom(model.config(), Longest(windows));
    WarnPastContext(model.config(), Longest(windows));
  }
  const WordMaterials materials(WithSamples(options.material), model, tokenizer,
                                options.model);
  if (source != nullptr && tokenizer != nullptr) {
    WarnUnknownScript(*tokenizer, *source);
  }
  ProgressBar bar;
  ProfileOptions profiling = asked;
  profiling.progress = bar.callback();
  Context context(options.engine.context());
  Profiler profiler(context, model, tokenizer, ModelName(options.model), hash,
                    profiling);
  if (begun) {
    profiler.Resume(std::move(*begun));
  } else {
    profiler.AddProbes();
  }
  const bool whole = source != nullptr
                         ? profiler.AddText(*source)
                         : profiler.AddWindows(std::move(windows));
  Profile profile = profiler.Take();
  const bool has_words = IsFirstRank();  // short texts: one rank's work
  if (!whole || (has_words && !AddWords(materials, options, context, model,
                                        tokenizer, bar, profile))) {
    KeepAndStop(profile, options);
  }
  if (options.means && IsFirstRank()) {
    profile.mean_outputs = ReadMeans(options, profile.settings, context);
  }
  profile.blocks.reset();  // it is whole: nothing goes on from it
  return profile;
}

int Run(Options options) {
  const Console console = StdoutConsole();
  if (options.explain) {
    return Explain(console, options.model, options.json);
  }
  if (options.model.empty()) throw UsageError("expected MODEL");
  options.engine.Require();
  if (options.texts.empty() == options.ids.empty()) {
    throw UsageError("expected either --text or --ids");
  }
  if (options.means && options.texts.empty()) {
    throw UsageError("--means: expected --text");
  }
  if (options.out.empty()) options.out = ModelName(options.model) + ".heads";
  RequireFiles(options.texts);
  if (IsFirstRank()) RequireWritable(options.out);
  std::vector<Detector> detectors;
  for (const std::string& path : options.patterns) {
    detectors.push_back(Detector::Load(path));
  }
  const Profile profile = Make(options, detectors);
  if (!IsFirstRank()) return kSucceeded;
  profile.Save(options.out);
  std::error_code none;  // there need not be one
  std::filesystem::remove(PartialOf(options.out), none);
  WarnUnmet(profile, detectors);
  WarnCertain(profile);
  if (options.json) {
    fmt::print("{}\n", ProfileJson(profile).dump(2));
    return kSucceeded;
  }
  Print(profile, console);
  fmt::print("{}", Wrap(fmt::format("Written to {}. What each head does: "
                                    "headwise roles {}",
                                    options.out, options.out),
                        console.width));
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder");
  line.Option("--text", options->texts,
              "Text files, folders, .gz .xz .zst, JSON lines with \"text\", "
              "or - for standard input. Encoder–decoders: lines "
              "source<TAB>target");
  line.Option("--ids", options->ids,
              "Instead of text: safetensors with input_ids [B, N] and "
              "perhaps attention_mask");
  line.Option("--context", options->context,
              "Tokens of a window; 0: 512, for encoders 128, or what the model "
              "can take. Longer sees further and costs more")
      .NotNegative();
  line.Option("--tokens", options->tokens,
              "Stop after so many tokens, at the end of a window; 0: read "
              "everything")
      .NotNegative();
  AddReadingFlags(line, options->reading);
  line.Option("--conllu", options->material.conllu,
              "A treebank in CoNLL-U, a file or a folder, for syntactic heads; "
              "shipped: the sample that comes along");
  line.Option("--coref", options->material.coref,
              "Coreference in CoNLL, a file or a folder, for coreference "
              "heads; shipped: the sample that comes along");
  line.Option("--pairs", options->material.pairs,
              "Lines source<TAB>target, for translation heads of "
              "encoder–decoders: links between words are learnt from them");
  line.Flag("--words", options->words,
            "Also position metrics between words (words.previous …); looks "
            "at every row again");
  line.Flag("--sentences", options->sentences,
            "Make each sentence a sequence of its own, as rare-token heads "
            "are defined");
  line.Option("--pattern", options->patterns,
              "Detectors of your own (docs/patterns.md), as many as you like");
  line.Option("--metrics", options->metrics,
              "all; or core: entropy, largest key, distance, first token "
              "and neighbours, which come almost free with the forward "
              "pass (no sinks, examples or probes)")
      .OneOf({"all", "core"})
      .ShowDefault();
  line.Option("--min-visible", options->min_visible,
              "Rows that see fewer keys are left out")
      .ShowDefault()
      .NotNegative();
  line.Option("--repeats", options->repeats,
              "Sequences of the random-repeat test; 0: none")
      .ShowDefault()
      .Between(0, 10000);
  line.Flag("--means", options->means,
            "Also what every head gives on average, for evaluate and prune "
            "--mean; reads the text a second time");
  line.Option("--out", options->out,
              "The profile to write; default: MODEL.heads here");
  line.Flag("--resume", options->resume,
            "Go on with an interrupted profile of the same text");
  line.Option("--checkpoint", options->checkpoint,
              "Seconds between copies of the profile so far, which --resume "
              "goes on from if the program is killed; 0: none")
      .NotNegative()
      .ShowDefault();
  AddEngineFlags(line, options->engine);
  line.Flag("--json", options->json, "Print every metric as JSON");
  line.Flag("--explain", options->explain, "Say what each metric is, and stop");
  return [options] { return Run(*options); };
}

}  // namespace

const Command kProfileCommand = {
    .name = "profile",
    .group = Group::kAnalyse,
    .summary = "What every head does, over any amount of text",
    .examples =
        "  headwise profile models/minilm-l6 --text novels/ --tokens 100000\n"
        "  zcat news.jsonl.gz | headwise profile models/gpt2 --text - \\\n"
        "      --context 1024 --out news.heads\n"
        "  headwise profile models/gpt2 --text a.txt --conllu ewt.conllu\n"
        "  headwise profile --explain",
    .setup = Setup,
    .lower = "--context or --threads",
    .ranks = true};

}  // namespace headwise
