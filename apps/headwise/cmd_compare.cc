// headwise compare: one head beside many on a sentence.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assets.h"
#include "command.h"
#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/fields.h"
#include "headwise/context.h"
#include "headwise/device.h"
#include "headwise/drawing/compare_report.h"
#include "headwise/study/compare/comparison.h"
#include "headwise/study/compare/trained_comparison.h"
#include "interrupt.h"
#include "progress_bar.h"
#include "text_argument.h"

namespace headwise {
namespace compare_command {
namespace {

struct Options {
  std::string sentence;
  std::vector<std::string> models;
  ComparisonOptions comparison;
  bool untrained = false;
  bool roles = true;
  std::optional<int64_t> layer;
  std::string page;
  std::string svg;
  EngineFlags engine;
  bool json = false;
};

// Layers other than the shipped models' exist untrained only.
bool Untrained(const Options& options) {
  return options.untrained ||
         FieldsToJson(options.comparison) != FieldsToJson(ComparisonOptions());
}

Comparison CompareModels(Context& context, const Options& options) {
  TrainedComparison asked;
  asked.layer = options.layer;
  asked.roles = options.roles;
  asked.type = options.engine.compute();
  asked.named = !options.models.empty();
  asked.models = {Asset("novels-one-head"), Asset("novels")};
  if (asked.named) {
    asked.models.assign(options.models.begin(), options.models.end());
  }
  ProgressBar bar;
  asked.progress = bar.on_progress("steps");
  asked.stop = StopOnInterrupt();
  return CompareTrained(context, options.sentence, asked);
}

Comparison Compare(const Options& options) {
  ContextOptions engine = options.engine.context();
  if (!Untrained(options)) {
    Context context(engine);
    return CompareModels(context, options);
  }
  if (options.layer || !options.models.empty()) {
    throw UsageError(
        "--layer and --model are of trained models: leave out --untrained, "
        "--heads, --d-model, --seed and --causal");
  }
  // A few small matrices, made here: nothing for a device.
  engine.device = Device();
  Context host(engine);
  return CompareHeads(host, options.sentence, options.comparison);
}

int Run(const Options& options) {
  options.engine.Require();
  RequireWritable(options.page);
  RequireWritable(options.svg);
  HintAtFile(options.sentence, "$(cat " + options.sentence + ")");
  const Comparison comparison = Compare(options);
  if (!options.page.empty()) {
    WriteFileAtomically(options.page, ComparePage(comparison));
  }
  if (!options.svg.empty()) {
    WriteFileAtomically(options.svg, CompareSvg(comparison));
  }
  if (options.json) {
    // Words that are no UTF-8 are replaced rather than refused.
    WriteJson(CompareJson(comparison).dump(2));
  } else {
    WriteDrawn("{}", CompareText(comparison, StdoutConsole()));
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("SENTENCE", options->sentence, "The sentence, in quotes")
      .Required();
  line.Option("--model", options->models,
              "A model's folder; once for each to compare, instead of the "
              "shipped two. They may differ in everything")
      .OneWord();
  line.Option("--layer", options->layer,
              "The layer; without it, the one whose heads differ most");
  line.Flag("--roles,!--no-roles", options->roles,
            "Name what trained heads do, as random repeats show it (some "
            "seconds for a large model); on unless --no-roles");
  line.Flag("--untrained", options->untrained,
            "Random weights, as the next four flags also ask for: only one "
            "head and 8 heads are shipped trained");
  AddFlags(line, options->comparison);
  line.Option("--out", options->page, "Write an HTML page to this file");
  line.Option("--svg", options->svg, "Write the figure to this file");
  AddEngineFlags(line, options->engine);
  line.Flag("--json", options->json, "Print JSON");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace compare_command

const Command kCompareCommand = {
    .name = "compare",
    .group = Group::kUnderstand,
    .summary = "One head beside many on your sentence",
    .examples =
        "  headwise compare \"The cat sat on the mat\"\n"
        "  headwise compare \"The cat sat on the mat\" --out compare.html\n"
        "  headwise compare \"Apple released a new phone\" --heads 1,2,8\n"
        "  headwise compare \"The cat sat on the mat\" --layer 2\n"
        "  headwise compare \"The cat sat\" --model models/gpt2 --model "
        "models/minilm-l6\n"
        "Compared are the shipped model of 8 heads and its twin of one head, "
        "trained\nalike, or the models that --model names; for other numbers "
        "of heads the\nweights are untrained, drawn at random.",
    .setup = compare_command::Setup};

}  // namespace headwise
