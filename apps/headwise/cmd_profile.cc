// headwise profile: streams text through a model and writes what every head
// does to a file.
#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/drawing/terminal.h"
#include "headwise/error.h"
#include "headwise/explain.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/text_input.h"
#include "interrupt.h"
#include "model_name.h"
#include "open_model.h"
#include "profile_title.h"
#include "progress_bar.h"
#include "ranks.h"
#include "roles_text.h"
#include "run_flags.h"
#include "text_argument.h"
#include "word_materials.h"

namespace headwise {
namespace profile_command {
namespace {

struct Options {
  std::string model;
  TextFlags text = {.input = {.tokens = 0}, .reading = {}};
  std::string ids;
  ProfileJob job;
  std::string out;
  EngineFlags engine;
  bool json = false;
  bool explain = false;
};

Json ToJson(const std::vector<MetricWords>& words) {
  Json list = Json::array();
  for (const MetricWords& one : words) {
    list.push_back(
        {{"name", one.name}, {"what", one.what}, {"trap", one.trap}});
  }
  return list;
}

int Explain(const Console& console, const std::string& model, bool json) {
  const MetricGlossary glossary = ExplainMetrics();
  std::vector<std::string> special;
  if (!model.empty()) special = SpecialTokenNames(model);
  if (json) {
    Json all = {{"metrics", ToJson(glossary.metrics)},
                {"forms", ToJson(glossary.forms)},
                {"rows_left_out", ToJson(glossary.rows_left_out)}};
    if (!model.empty()) all["special_tokens"] = special;
    WriteJson(all.dump(2));
    return kSucceeded;
  }
  const auto print = [&](const std::vector<MetricWords>& words) {
    for (const MetricWords& one : words) {
      WriteDrawn("{}\n{}", Bold(console, one.name),
                 Wrap(Capital(one.what) + ".", console.width, 2));
      if (one.trap.empty()) continue;
      WriteStdout("{}", Wrap("Beware: " + one.trap + ".", console.width, 2));
    }
  };
  print(glossary.metrics);
  WriteStdout("\nForms of a name\n");
  print(glossary.forms);
  WriteStdout("\nRows that are left out\n");
  print(glossary.rows_left_out);
  if (!special.empty()) {
    WriteStdout("{}", Wrap(fmt::format("Special tokens of {}: {}.", model,
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
  WriteDrawn("{}{}{}", Wrap(ProfileTitle(profile) + ".", console.width),
             DrawTable(table, console),
             Wrap("* on random repeats. Entropy is a share of its maximum.",
                  console.width));
  if (const std::string patterns = DrawPatterns(profile, console);
      !patterns.empty()) {
    WriteDrawn("\n{}", patterns);
  }
}

// The text, or what is read instead.
TextInput ReadInput(const Options& options, const Transformer& model) {
  TextInput input = options.text.input;
  if (options.ids.empty()) {
    RequireTexts(options.text.input.files);
    if (!model.has_tokenizer()) {
      throw Error(ErrorCode::kNotFound,
                  {model.info().name, "a tokenizer to read text with", "none",
                   "models without one take ids"});
    }
  } else {
    input.ids = ReadIds(options.ids, model.info().vocabulary);
  }
  return input;
}

Profile Make(const Options& options) {
  Transformer model =
      OpenTransformer(options.model, options.engine, options.text.reading);
  const TextInput input = ReadInput(options, model);
  ProgressBar bar;
  ProfileJob job = options.job;
  job.material = WithSamples(job.material);
  job.on_progress = bar.on_progress("layers");
  job.stop = StopOnInterrupt();
  if (!job.partial.file) job.partial.file = options.out + ".partial";
  return MakeProfile(model, input, job);
}

int Run(Options options) {
  const Console console = StdoutConsole();
  if (options.explain) {
    return Explain(console, options.model, options.json);
  }
  if (options.model.empty()) throw UsageError("expected MODEL");
  options.engine.Require();
  if (options.text.input.files.empty() == options.ids.empty()) {
    throw UsageError("expected either --text or --ids");
  }
  if (options.job.means && options.text.input.files.empty()) {
    throw UsageError("--means: expected --text");
  }
  if (options.out.empty()) options.out = ModelName(options.model) + ".heads";
  RequireFiles(options.text.input.files);
  if (IsFirstRank()) RequireWritable(options.out);
  const Profile profile = Make(options);
  if (!IsFirstRank()) return kSucceeded;
  profile.Save(options.out);
  Warn(NoticesOf(profile, options.job.patterns));
  if (options.json) {
    WriteJson(JsonText(profile));
    return kSucceeded;
  }
  Print(profile, console);
  WriteStdout("{}", Wrap(fmt::format("Written to {}. What each head does: "
                                     "headwise roles {}",
                                     options.out, options.out),
                         console.width));
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder");
  line.Option("--text", options->text.input.files,
              "Text files, folders, .gz .xz .zst, JSON lines with \"text\", "
              "or - for standard input. Encoder–decoders: lines "
              "source<TAB>target");
  line.Option("--ids", options->ids,
              "Instead of text: safetensors with input_ids [B, N] and "
              "perhaps attention_mask");
  AddInputFlags(line, options->text);
  AddFlags(line, options->job);
  AddSampleNote(line);
  line.Option("--out", options->out,
              "The profile to write; default: MODEL.heads here");
  AddEngineFlags(line, options->engine);
  AddWeightMemoryFlag(line, options->engine);
  line.Flag("--json", options->json, "Print every metric as JSON");
  line.Flag("--explain", options->explain, "Say what each metric is, and stop");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace profile_command

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
    .setup = profile_command::Setup,
    .lower = "--context or --threads",
    .ranks = true};

}  // namespace headwise
