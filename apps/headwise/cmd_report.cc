// headwise report: everything that is known of a model's heads, as one page.
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/model.h"
#include "headwise/report.h"
#include "headwise/text_input.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"
#include "ranks.h"
#include "run_flags.h"
#include "text_argument.h"

namespace headwise {
namespace report_command {
namespace {

struct Options {
  std::string model;
  TextFlags text = {.input = {.tokens = 0}, .reading = {}};
  ReportJob report;
  std::string out = "report.html";
  std::string json;
  EngineFlags engine;
};

int Run(Options options) {
  options.engine.Require();
  options.report.stop = StopOnInterrupt();
  if (IsFirstRank()) {
    RequireWritable(options.out);
    if (options.json != "-") RequireWritable(options.json);
  }
  RequireTexts(options.text.input.files);
  Transformer model =
      OpenTransformer(options.model, options.engine, options.text.reading);
  Report report;
  {
    ProgressBar bar;
    options.report.on_progress = bar.on_progress("sequences");
    report = MakeReport(model, options.text.input, options.report);
  }
  if (!IsFirstRank()) return kSucceeded;
  report.Save(options.out);
  if (options.json == "-") {
    WriteJson(report.json);
    return kSucceeded;
  }
  if (!options.json.empty()) {
    WriteFileAtomically(options.json, report.json + "\n");
  }
  const Console console = StdoutConsole();
  WriteDrawn("{}\n", SummaryText(report, console.width, console.color));
  WriteStdout("The whole report: {}\n", options.out);
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder").Required();
  line.Option("--text", options->text.input.files,
              "Files or folders of text (.gz, .xz, .zst, .jsonl too). "
              "Encoder–decoders: source<TAB>target lines");
  line.Option("--out", options->out, "The HTML file to write").ShowDefault();
  line.Option("--json", options->json,
              "Write the data here too (docs/report.schema.json); - prints "
              "it");
  AddFlags(line, options->report);
  AddInputFlags(line, options->text);
  AddEngineFlags(line, options->engine);
  return [options] {
    if (options->text.input.files.empty() && !options->report.profile) {
      throw UsageError("expected --text FILE… or --profile FILE");
    }
    return Run(*options);
  };
}

}  // namespace
}  // namespace report_command

const Command kReportCommand = {
    .name = "report",
    .group = Group::kAnalyse,
    .summary = "All of it as one page, for a browser, and as JSON",
    .examples =
        "  headwise report models/minilm-l6 --text novel.txt\n"
        "  headwise report models/gpt2 --text wiki/ --tokens 50000 \\\n"
        "      --out gpt2.html --json gpt2.json\n"
        "  headwise report models/gpt2 --profile gpt2.heads --text wiki/\n"
        "The page is one file that needs no network: open it in a browser.",
    .setup = report_command::Setup,
    .lower = "--context, --tokens, --rank-tokens or --threads",
    .ranks = true};

}  // namespace headwise
