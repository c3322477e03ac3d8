// headwise atlas: a page for every head of a model.
#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "flags.h"
#include "headwise/atlas.h"
#include "headwise/drawing/terminal.h"
#include "headwise/drawing/text.h"
#include "headwise/model.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"
#include "ranks.h"
#include "run_flags.h"

namespace headwise {
namespace atlas_command {
namespace {

struct Options {
  RunFlags run;
  TextFlags text = {.input = {.tokens = 0}, .reading = {}};
  AtlasJob atlas;
  std::string out;
};

// Before the work: a folder, or the name of one to be.
void RequireFolder(const std::string& out) {
  if (!std::filesystem::exists(out) || std::filesystem::is_directory(out)) {
    return;
  }
  throw UsageError("--out: expected a folder; found the file " + out);
}

std::string Number3(double value) {
  return std::isnan(value) ? "–" : fmt::format("{:.3f}", value);
}

void Print(const Atlas& atlas, const Options& options) {
  const Console console = StdoutConsole();
  StudyTable table;
  table.title = fmt::format("{}: {} heads on {} tokens of {} sequences",
                            options.run.model, atlas.heads.size(), atlas.tokens,
                            atlas.sequences);
  table.columns = {"head",     "self",     "previous",  "entropy",
                   "distance", "variance", "induction", "role"};
  for (const AtlasHead& head : atlas.heads) {
    std::vector<std::string> row = {ToString(head.head)};
    for (const double metric : head.metrics) row.push_back(Number3(metric));
    row.push_back(head.role);
    table.rows.push_back(std::move(row));
  }
  WriteDrawn("{}\n{}", Bold(console, table.title), DrawTable(table, console));
  const std::filesystem::path out = options.out;
  WriteStdout(
      "\nHeadVis' six metrics, over every row. Maps of {} sequences are kept.\n"
      "Open {} in a browser.\nFor HeadVis' viewer: {}\n",
      atlas.kept, (out / "index.html").string(), (out / "data").string());
}

int Run(const Options& options) {
  options.run.engine.Require();
  RequireFiles(options.text.input.files);
  if (IsFirstRank()) RequireFolder(options.out);
  AtlasJob job = options.atlas;
  job.partial = KeptBy(job.partial, options.run, "atlas");
  job.stop = StopOnInterrupt();
  Transformer model = OpenTransformer(options.run.model, options.run.engine,
                                      options.text.reading);
  Atlas atlas;
  {
    ProgressBar bar;
    job.on_progress = bar.on_progress();
    atlas = MakeAtlas(model, options.text.input, options.out, job);
  }
  if (!IsFirstRank()) return kSucceeded;
  if (options.run.json) {
    WriteJson(WithModel(options.run.model, JsonText(atlas)).dump());
  } else {
    Print(atlas, options);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run, "A model's folder");
  AddWeightMemoryFlag(line, options->run.engine);
  AddTextFlags(line, options->text).Required();
  line.Option("--out", options->out, "The folder to write").Required();
  AddFlags(line, options->atlas);
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace atlas_command

const Command kAtlasCommand = {
    .name = "atlas",
    .group = Group::kAnalyse,
    .summary = "A page for every head: where it is strongest, and why",
    .examples =
        "  headwise atlas models/minilm-l6 --text novels/ --out minilm-atlas\n"
        "  headwise atlas models/gpt2 --text wiki.txt --out gpt2-atlas \\\n"
        "      --strongest 20 --samples 4\n"
        "  mpirun -n 4 headwise atlas models/gpt2 --text wiki/ --out atlas\n"
        "Open index.html in a browser; data/ is for HeadVis' viewer.",
    .setup = atlas_command::Setup,
    .lower = "--context, --drawn, --strongest or --threads",
    .ranks = true};

}  // namespace headwise
