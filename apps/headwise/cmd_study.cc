// headwise study: one runnable claim about multi-head attention.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "headwise/base/atomic_file.h"
#include "headwise/context.h"
#include "headwise/report/study_report.h"
#include "headwise/study/study.h"
#include "interrupt.h"
#include "progress_bar.h"

namespace headwise {
namespace {

struct Options {
  std::string name;
  bool list = false;
  bool json = false;
  bool quick = false;
  bool full = false;
  std::vector<std::string> texts;
  std::string svg;
  int threads = 0;
};

int RunOne(const Options& options) {
  const Study& study = FindStudy(options.name);
  Context context({.threads = options.threads, .implementations = ""});
  ProgressBar bar;
  const StudyResult result = RunStudy(study, context,
                                      {.full = options.full,
                                       .texts = options.texts,
                                       .progress = bar.callback(),
                                       .stop = StopOnInterrupt()});
  if (!options.svg.empty()) {
    WriteFileAtomically(options.svg, StudySvg(study, result));
  }
  if (options.json) {
    fmt::print("{}\n", StudyJson(study, result).dump(2));
  } else {
    fmt::print("{}", StudyText(study, result, StdoutConsole()));
  }
  // A hypothesis may fail; mathematics may not.
  return result.laws_held() ? kSucceeded : kFailed;
}

int Run(const Options& options) {
  if (options.list) {
    if (options.json) {
      fmt::print("{}\n", StudyListJson().dump(2));
    } else {
      fmt::print("{}", StudyListText(StdoutConsole()));
    }
    return kSucceeded;
  }
  if (options.name.empty()) {
    throw UsageError("expected the name of a study, or --list");
  }
  return RunOne(options);
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("NAME", options->name, "The study to run");
  line.Flag("--list", options->list, "Name every study with its claim");
  line.Flag("--json", options->json, "Print JSON");
  const Argument quick = line.Flag(
      "--quick", options->quick,
      "One seed, minutes on two cores; of what is trained only indicative. "
      "The default");
  line.Flag("--full", options->full,
            "As many seeds and steps as a verdict needs")
      .Excludes(quick);
  line.Option("--text", options->texts,
              "Text files or folders for studies that read; head-count also "
              "takes .tsv pairs to translate. Default: stories of a small "
              "made-up grammar");
  line.Option("--svg", options->svg, "Also write the figure to this file");
  line.Option("--threads", options->threads,
              "Threads to use; 0: all cores. Results do not depend on it");
  return [options] { return Run(*options); };
}

}  // namespace

const Command kStudyCommand = {
    .name = "study",
    .group = Group::kUnderstand,
    .summary = "one runnable claim about multi-head attention",
    .examples =
        "  headwise study --list\n"
        "  headwise study averaging\n"
        "  headwise study rank --svg rank.svg\n"
        "  headwise study operator --json\n"
        "A law that does not hold gives exit code 1.",
    .setup = Setup};

}  // namespace headwise
