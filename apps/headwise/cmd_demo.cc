// headwise demo: the shipped model on the shipped text.
#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <string>

#include "assets.h"
#include "commands.h"
#include "console.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/report.h"
#include "headwise/report/report_summary.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"

namespace headwise {
namespace {

struct Options {
  std::string folder = ".";
  bool json = false;
};

int Run(const Options& options) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // the writer tells what is wrong with the folder
  fs::create_directories(options.folder, ignored);
  const fs::path page = fs::path(options.folder) / "report.html";
  const fs::path data = fs::path(options.folder) / "report.json";
  RequireWritable(page);
  RequireWritable(data);
  ReportJob job;
  job.rank_tokens = 0;  // the whole text: it is short
  job.stop = StopOnInterrupt();
  Transformer model = OpenTransformer(Asset("novels").string(), {});
  Report report;
  {
    ProgressBar bar;
    job.on_progress = bar.on_progress("layers");
    report = MakeReport(
        model,
        TextInput::Files({Asset("text/the-lamp-at-sorrel-point.txt").string()}),
        job);
  }
  report.Save(page);
  WriteFileAtomically(data, report.json + "\n");
  if (options.json) {
    fmt::print("{}\n", report.json);
    return kSucceeded;
  }
  const Console console = StdoutConsole();
  fmt::print("{}\n{}", SummaryText(ParseJson(report.json, "report"), console),
             Wrap("The model is small: six layers of eight heads, trained on a "
                  "hundred novels (assets/README.md). The text is not among "
                  "them.",
                  console.width));
  fmt::print(
      "\nThe whole report: {}\nIts data: {}\nOpen it in a browser:\n"
      "  xdg-open {}\n",
      Visible(page.string()), Visible(data.string()), Visible(page.string()));
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("--out", options->folder,
              "The folder for report.html and report.json")
      .ShowDefault();
  line.Flag("--json", options->json, "Print the report as JSON instead");
  return [options] { return Run(*options); };
}

}  // namespace

const Command kDemoCommand = {
    .name = "demo",
    .group = Group::kTools,
    .summary = "The shipped model on the shipped text: a table, and a page",
    .examples =
        "  headwise demo\n"
        "  headwise demo --out /tmp/demo\n"
        "Syntactic and coreference heads, on samples that come along:\n"
        "  headwise roles assets/novels --conllu shipped --coref shipped",
    .setup = Setup};

}  // namespace headwise
