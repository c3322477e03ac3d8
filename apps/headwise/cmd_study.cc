// headwise study: one runnable claim about multi-head attention.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "assets.h"
#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/byte_size.h"
#include "headwise/context.h"
#include "headwise/drawing/study_report.h"
#include "headwise/error.h"
#include "headwise/model_info.h"
#include "headwise/study/advice/head_advice.h"
#include "headwise/study/study.h"
#include "interrupt.h"
#include "progress_bar.h"
#include "study_all.h"

namespace headwise {
namespace study_command {
namespace {

struct Options {
  std::vector<std::string> names;
  bool list = false;
  bool json = false;
  bool quick = false;
  bool full = false;
  bool all = false;
  bool explain = false;
  bool hash = false;
  std::string seeds;  // "5", "21-30" or "3,21-25"
  bool replicate = false;
  std::vector<std::string> pool;
  std::string out = "studies";  // of several
  std::string keep;
  std::vector<std::string> texts;
  std::string model, twin;
  std::string recommend;
  std::string svg;
  EngineFlags engine;
};

// The models to look at: those given, else what ships, else none.
void AddModels(const Options& options, StudyRequest& request) {
  // Refused before the training, not after it.
  for (const std::string& given : {options.model, options.twin}) {
    if (!given.empty()) ReadModelInfo(given);
  }
  request.model = options.model;
  request.twin = options.twin;
  request.reading = options.texts;
  try {
    if (options.model.empty() && options.twin.empty()) {
      request.model = Asset("novels");
      request.twin = Asset("novels-one-head");
    }
    if (request.reading.empty()) {
      request.reading = {Asset("text/the-lamp-at-sorrel-point.txt").string()};
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    if (!options.model.empty()) throw;
    request.model.clear();
  }
}

// A difference that a study measures should not be rounding.
void RequireF32(const EngineFlags& engine) {
  if (engine.type == "auto" || engine.type == "f32") return;
  throw UsageError("--type: expected f32, which studies compute in; found " +
                   engine.type);
}

// Refuses a value of --seeds.
[[noreturn]] void RefuseSeeds(const std::string& given) {
  throw UsageError(
      "--seeds: expected how many, 1 to 1000, or which, as 21-30 or 3,21-25; "
      "found " +
      given);
}

uint64_t SeedIn(const std::string& text, const std::string& given) {
  constexpr size_t kMostDigits = 9;
  const bool digits =
      !text.empty() && text.size() <= kMostDigits &&
      std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) RefuseSeeds(given);
  return std::stoull(text);
}

// "21-30", "3,21-25": each once, in this order.
std::vector<uint64_t> ChosenSeeds(const std::string& given) {
  constexpr size_t kMost = 1000;
  std::vector<uint64_t> seeds;
  for (size_t begin = 0; begin <= given.size();) {
    const size_t end = std::min(given.find(',', begin), given.size());
    const std::string part = given.substr(begin, end - begin);
    const size_t line = part.find('-');
    const uint64_t first = SeedIn(part.substr(0, line), given);
    const uint64_t last =
        line == part.npos ? first : SeedIn(part.substr(line + 1), given);
    if (last < first || last - first >= kMost) RefuseSeeds(given);
    for (uint64_t seed = first; seed <= last; ++seed) {
      if (std::ranges::find(seeds, seed) != seeds.end()) RefuseSeeds(given);
      seeds.push_back(seed);
    }
    begin = end + 1;
  }
  if (seeds.size() > kMost) RefuseSeeds(given);
  return seeds;
}

void TakeSeeds(const Options& options, StudyRequest& request) {
  const std::string& given = options.seeds;
  if (given.empty()) return;
  if (given.find_first_of(",-") != given.npos) {
    request.chosen = ChosenSeeds(given);
    return;
  }
  const uint64_t count = SeedIn(given, given);
  if (count < 1 || count > 1000) RefuseSeeds(given);
  request.seed_count = static_cast<int64_t>(count);
}

StudyRequest RequestOf(const Options& options, ProgressBar* bar) {
  StudyRequest request;
  request.full = options.full;
  TakeSeeds(options, request);
  request.texts = options.texts;
  request.keep = options.keep;
  if (bar != nullptr) request.progress = bar->on_progress("steps");
  request.stop = StopOnInterrupt();
  AddModels(options, request);
  return request;
}

// The named studies, or all. Throws for an unknown name.
std::vector<const Study*> Chosen(const Options& options) {
  if (options.all) return {Studies().begin(), Studies().end()};
  std::vector<const Study*> studies;
  for (const std::string& name : options.names) {
    studies.push_back(&FindStudy(name));
  }
  return studies;
}

int RunSeveral(const Options& options) {
  RequireF32(options.engine);
  options.engine.Require();
  if (!options.svg.empty()) {
    throw UsageError("--svg: expected one study; found several");
  }
  const std::vector<const Study*> studies = Chosen(options);
  ProgressBar bar;
  return RunStudies(studies, options.engine, RequestOf(options, &bar),
                    options.out, options.json);
}

// {NAME: HASH}: what records are held to.
int TellHashes(const Options& options) {
  const StudyRequest request = RequestOf(options, nullptr);
  Context context(options.engine.context());
  Json hashes = Json::object();
  for (const Study* study : Chosen(options)) {
    hashes[study->name] = ExpectedHash(*study, context, request);
  }
  WriteJson(hashes.dump(2));
  return kSucceeded;
}

int Explain(const Options& options) {
  for (const Study* study : Chosen(options)) {
    if (options.json) {
      WriteJson(StudyHistoryJson(*study).dump(2));
    } else {
      WriteDrawn("{}", StudyExplanation(*study, StdoutConsole()));
    }
  }
  return kSucceeded;
}

int RunOne(const Options& options) {
  RequireF32(options.engine);
  options.engine.Require();
  const Study& study = FindStudy(options.names[0]);
  RequireWritable(options.svg);
  Context context(options.engine.context());
  ProgressBar bar;
  StudyRequest request = RequestOf(options, &bar);
  if (options.replicate) request.chosen = study.replicate_seeds();
  const StudyResult result = RunStudy(study, context, request);
  if (!options.svg.empty()) {
    WriteFileAtomically(options.svg, StudySvg(study, result));
  }
  if (options.json) {
    WriteJson(StudyRecord(study, result, context.device()).dump(2));
  } else {
    WriteDrawn("{}", StudyText(study, result, StdoutConsole()));
  }
  // A hypothesis may fail; mathematics may not.
  return result.laws_held() ? kSucceeded : kFailed;
}

// Records of one study, as --json prints them, as one.
int Pool(const Options& options) {
  if (options.names.size() != 1) {
    throw UsageError("--pool: expected one study");
  }
  std::vector<Json> records;
  for (const std::string& file : options.pool) {
    records.push_back(ReadJson(file));
  }
  WriteJson(PoolRecords(FindStudy(options.names[0]), records).dump(2));
  return kSucceeded;
}

int Recommend(const Options& options) {
  if (options.names[0] != "effective-heads") {
    throw UsageError("--recommend belongs to study effective-heads");
  }
  const ModelSize size = ParseModelSize(options.recommend);
  const HeadAdvice advice = RecommendHeads(size);
  if (options.json) {
    const Json json = {{"width", size.width},
                       {"layers", size.layers},
                       {"tokens", size.tokens},
                       {"heads", advice.heads},
                       {"head_dim", advice.head_dim},
                       {"kv_heads", advice.kv_heads},
                       {"cache_bytes", advice.cache_bytes},
                       {"map_bytes", advice.map_bytes},
                       {"rests_on", Name(advice.basis)},
                       {"reason", advice.reason}};
    WriteJson(json.dump(2));
    return kSucceeded;
  }
  WriteStdout(
      "{}",
      Wrap(fmt::format("Width {}, {}, {}: begin with {} of {} a layer, {} of "
                       "keys and values. Their "
                       "cache is {} in bf16; one layer's attention "
                       "maps, if they were kept, {}. Why: {}. Then "
                       "measure how many are used: headwise rank.",
                       size.width, Counted(size.layers, "layer"),
                       Counted(size.tokens, "token"),
                       Counted(advice.heads, "head"),
                       Counted(advice.head_dim, "dimension"), advice.kv_heads,
                       ByteSize(static_cast<uint64_t>(advice.cache_bytes)),
                       ByteSize(static_cast<uint64_t>(advice.map_bytes)),
                       advice.reason),
           StdoutConsole().width));
  return kSucceeded;
}

int Run(const Options& options) {
  if (options.list) {
    if (options.json) {
      WriteJson(StudyListJson().dump(2));
    } else {
      WriteDrawn("{}", StudyListText(StdoutConsole()));
    }
    return kSucceeded;
  }
  if (options.all != options.names.empty()) {
    throw UsageError("expected the name of a study, or --list, or --all");
  }
  if (options.hash) return TellHashes(options);
  if (!options.pool.empty()) return Pool(options);
  if (options.explain) return Explain(options);
  const bool several = options.all || options.names.size() > 1;
  if (several && options.replicate) {
    throw UsageError("--replicate: expected one study; found several");
  }
  if (several) return RunSeveral(options);
  return options.recommend.empty() ? RunOne(options) : Recommend(options);
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("NAME", options->names,
              "The study to run; several give one table, as --all does");
  line.Flag("--list", options->list, "Name every study with its claim");
  line.Flag("--json", options->json, "Print JSON");
  const Argument quick = line.Flag(
      "--quick", options->quick,
      "One seed, minutes on two cores; of what is trained nothing is decided. "
      "The default");
  line.Flag("--full", options->full,
            "As many seeds and steps as a verdict needs")
      .Excludes(quick);
  const Argument seeds = line.Option(
      "--seeds", options->seeds,
      "So many seeds: 1 and on, or the fresh ones that a study fixed; or "
      "these: "
      "21-30, or 3,21-25. Default: 1; with --full 5, or 3 where one run is "
      "long");
  line.Flag("--replicate", options->replicate,
            "Take five further seeds, which the study fixed before anyone ran "
            "them: does a word come again?")
      .Excludes(seeds);
  line.Option("--pool", options->pool,
              "Run nothing; print the record of all seeds in these records of "
              "the study, as --json printed them, judged anew")
      .Several();
  line.Flag("--explain", options->explain,
            "Run nothing; say what a verdict needs and what was changed after "
            "a result");
  line.Flag("--all", options->all,
            "Every study, then one table; what --out has of them is not run "
            "again");
  line.Option("--out", options->out,
              "Folder of several studies: one JSON file each. An interrupted "
              "run continues where it stopped")
      .ShowDefault();
  line.Option("--keep", options->keep,
              "head-dropout, gates, mixture, negative, removal, translators: "
              "folder for the numbers of each training, so that an interrupted "
              "run continues, and what several of them train is trained once");
  line.Flag("--hash", options->hash,
            "Run one step; print the hash of claim, expectations, steps, seeds "
            "and revision, as JSON");
  line.Option("--text", options->texts,
              "Text files or folders for studies that read. With --full, "
              "studies of language models train on them, cut by the tokenizer "
              "of --model, every 20th file held out; without them those decide "
              "nothing. translators takes .tsv pairs in chapters (BOOK:CHAPTER:"
              "VERSE, source, target), and head-count pairs alone. "
              "Default: stories of a small made-up grammar");
  line.Option("--model", options->model,
              "A trained model that one-vs-many, layers and specialise look at "
              "beside those they train. Default: the shipped one");
  line.Option("--twin", options->twin, "Its twin of one head, for one-vs-many");
  line.Option("--recommend", options->recommend,
              "effective-heads: WIDTH,LAYERS,TOKENS of a model; says how many "
              "heads to begin with, and trains nothing");
  line.Option("--svg", options->svg, "Also write the figure to this file");
  AddEngineFlags(line, options->engine);
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace study_command

const Command kStudyCommand = {
    .name = "study",
    .group = Group::kUnderstand,
    .summary = "One runnable claim about multi-head attention",
    .examples =
        "  headwise study --list\n"
        "  headwise study averaging\n"
        "  headwise study rank --svg rank.svg\n"
        "  headwise study operator --json\n"
        "  headwise study symmetry --explain\n"
        "  headwise study head-count --full --seeds 5\n"
        "  headwise study team --full --replicate --json\n"
        "  headwise study --all --full --out studies\n"
        "  headwise study effective-heads --recommend 4096,32,131072\n"
        "A law that does not hold gives exit code 1.",
    .setup = study_command::Setup};

}  // namespace headwise
