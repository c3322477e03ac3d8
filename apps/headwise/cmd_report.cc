// headwise report: everything that is known of a model's heads, as one page.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>

#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/model/checkpoint.h"
#include "headwise/report/html_report.h"
#include "headwise/report/make_report.h"
#include "headwise/report/report_summary.h"
#include "interrupt.h"
#include "past_context.h"
#include "progress_bar.h"
#include "ranks.h"
#include "text_argument.h"
#include "text_reading.h"

namespace headwise {
namespace {

struct Options {
  std::string model;
  ReportOptions report;
  std::string out = "report.html";
  std::string json;
  EngineFlags engine;
  ReadingFlags reading;
};

// Standard input cannot be read twice, and is refused later.
void WarnOfScript(const Options& options) {
  const std::vector<std::string>& texts = options.report.texts;
  if (texts.empty() || std::ranges::find(texts, "-") != texts.end()) return;
  const auto tokenizer = Tokenizer::Find(options.model);
  if (tokenizer == nullptr) return;
  TextSource source(texts);
  WarnUnknownScript(*tokenizer, source);
}

int Run(Options options) {
  options.engine.Require();
  options.report.stop = StopOnInterrupt();
  if (IsFirstRank()) {
    RequireWritable(options.out);
    if (options.json != "-") RequireWritable(options.json);
  }
  RequireTexts(options.report.texts);
  if (options.report.context > 0) {
    WarnPastContext(OpenConfig(options.model), options.report.context);
  }
  options.report.tokenizer = options.reading.options();
  options.report.group = &RankGroup();
  options.report.type = options.engine.compute();
  WarnOfScript(options);
  Context context(options.engine.context());
  Json report;
  {
    ProgressBar bar;
    options.report.progress = bar.callback();
    report = MakeReport(context, options.model, options.report);
  }
  if (!IsFirstRank()) return kSucceeded;
  WriteFileAtomically(options.out, HtmlReport(report));
  const std::string json = report.dump(1);
  if (options.json == "-") {
    fmt::print("{}\n", json);
    return kSucceeded;
  }
  if (!options.json.empty()) WriteFileAtomically(options.json, json + "\n");
  fmt::print("{}\nThe whole report: {}\n", SummaryText(report, StdoutConsole()),
             Visible(options.out));
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder").Required();
  line.Option("--text", options->report.texts,
              "Files or folders of text (.gz, .xz, .zst, .jsonl too). "
              "Encoder–decoders: source<TAB>target lines");
  line.Option("--profile", options->report.profile,
              "Use this profile instead of making one");
  line.Option("--out", options->out, "The HTML file to write").ShowDefault();
  line.Option("--json", options->json,
              "Write the data here too (docs/report.schema.json); - prints "
              "it");
  line.Option("--tokens", options->report.tokens,
              "Most tokens to profile; 0: all")
      .NotNegative();
  line.Option("--rank-tokens", options->report.rank_tokens,
              "Most tokens for importance, similarity and path effects, "
              "which run the model once a head")
      .ShowDefault()
      .NotNegative();
  line.Option("--context", options->report.context,
              "Tokens of a window; 0: what the model knows, 512 at most")
      .NotNegative();
  AddReadingFlags(line, options->reading);
  line.Option("--skip", options->report.skip,
              "Parts to leave out: importance, similarity, composition, "
              "content, samples")
      .Commas();
  AddEngineFlags(line, options->engine);
  return [options] {
    if (options->report.texts.empty() && options->report.profile.empty()) {
      throw UsageError("expected --text FILE… or --profile FILE");
    }
    return Run(*options);
  };
}

}  // namespace

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
    .setup = Setup,
    .lower = "--context, --tokens, --rank-tokens or --threads",
    .ranks = true};

}  // namespace headwise
