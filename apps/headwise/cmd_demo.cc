// headwise demo: the shipped models on the shipped texts.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "assets.h"
#include "commands.h"
#include "console.h"
#include "headwise/base/atomic_file.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/report.h"
#include "headwise/roles.h"
#include "headwise/text_input.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"
#include "word_materials.h"

namespace headwise {
namespace demo_command {
namespace {

struct Options {
  std::string folder = ".";
  bool json = false;
};

// Enough to see which heads matter; the page says what it is too little for.
constexpr int64_t kRankTokens = 1536;

// A head of the encoder with the role that it is shown for.
struct Shown {
  HeadRef head;
  Role role;
};

// For each relation between words the head that follows it best.
std::map<std::string, Shown> WordHeads() {
  Transformer encoder = OpenTransformer(Asset("encoder").string(), {});
  ProgressBar bar;
  ProfileJob job;
  job.repeats = 0;
  job.material = WithSamples({kShippedSample, kShippedSample});
  job.on_progress = bar.on_progress();
  job.stop = StopOnInterrupt();
  std::map<std::string, Shown> best;
  for (const HeadRoles& one : FindRoles(MakeProfile(encoder, {}, job))) {
    for (const Role& role : one.roles) {
      constexpr std::string_view kSyntactic = "syntactic(";
      std::string relation = role.name;
      if (relation.starts_with(kSyntactic)) {
        relation = relation.substr(kSyntactic.size());
        relation.pop_back();
      } else if (relation != "coreference") {
        continue;
      }
      Shown& shown = best[relation];
      if (role.score > shown.role.score) shown = {one.head, role};
    }
  }
  return best;
}

std::string EncoderText(const Console& console) {
  std::string text = Wrap(
      "Beside it a small encoder (assets/encoder), which reads whole words and "
      "both ways. On the sentences and passages that come along these of its "
      "48 heads follow a relation best; \"best offset\" is what always looking "
      "so many words away would give:",
      console.width);
  for (const auto& [relation, shown] : WordHeads()) {
    text += fmt::format("  {:<12} {:<5} {:.2f} [{:.2f}, {:.2f}]  {}\n",
                        relation, ToString(shown.head), shown.role.score,
                        shown.role.low, shown.role.high, shown.role.evidence);
  }
  return text +
         "See one: headwise show assets/encoder \"The cat sat on the "
         "mat.\" --heads 2.2\n";
}

int Run(const Options& options) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // the writer tells what is wrong with the folder
  fs::create_directories(options.folder, ignored);
  const fs::path page = fs::path(options.folder) / "report.html";
  const fs::path data = fs::path(options.folder) / "report.json";
  RequireWritable(page);
  RequireWritable(data);
  ReportJob job;
  job.rank_tokens = kRankTokens;
  job.stop = StopOnInterrupt();
  Transformer model = OpenTransformer(Asset("novels").string(), {});
  Report report;
  {
    ProgressBar bar;
    job.on_progress = bar.on_progress("sequences");
    report = MakeReport(
        model,
        TextInput::Files({Asset("text/the-lamp-at-sorrel-point.txt").string()}),
        job);
  }
  report.Save(page);
  WriteFileAtomically(data, report.json + "\n");
  if (options.json) {
    WriteJson(report.json);
    return kSucceeded;
  }
  const Console console = StdoutConsole();
  WriteDrawn("{}\n{}", SummaryText(report, console.width, console.color),
             Wrap("The model is small: six layers of eight heads, trained on a "
                  "hundred novels (assets/README.md). The text is not among "
                  "them.",
                  console.width));
  WriteDrawn("\n{}", EncoderText(console));
  WriteStdout(
      "\nThe whole report: {}\nIts data: {}\nOpen it in a browser:\n"
      "  xdg-open {}\n",
      page.string(), data.string(), page.string());
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
}  // namespace demo_command

const Command kDemoCommand = {
    .name = "demo",
    .group = Group::kTools,
    .summary = "The shipped models on the shipped texts: tables, and a page",
    .examples =
        "  headwise demo\n"
        "  headwise demo --out /tmp/demo\n"
        "All syntactic and coreference heads, on samples that come along:\n"
        "  headwise roles assets/encoder --conllu shipped --coref shipped",
    .setup = demo_command::Setup};

}  // namespace headwise
