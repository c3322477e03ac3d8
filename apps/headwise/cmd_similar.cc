// headwise similar: which heads duplicate which, groups of like heads, a map.
#include <fmt/core.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/drawing/terminal.h"
#include "headwise/model.h"
#include "headwise/similar.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"
#include "ranks.h"
#include "run_flags.h"

namespace headwise {
namespace similar_command {
namespace {

struct Options {
  RunFlags run;
  TextFlags text = {.input = {.tokens = 8192}, .reading = {}};
  std::string svg;
  int64_t top = 15;
  SimilarityJob similarity;
};

std::string Share3(double value) {
  return std::isnan(value) ? "–" : fmt::format("{:.3f}", value);
}

void PrintPairs(const HeadSimilarity& s, size_t top, const Console& console) {
  StudyTable table;
  table.title = "The pairs that look most alike";
  table.columns = {"heads", "JSD", "Bhatt.", "CKA", "OV read", "OV write"};
  for (size_t i = 0; i < std::min(top, s.closest.size()); ++i) {
    const HeadPair& pair = s.closest[i];
    table.rows.push_back({fmt::format("{} ~ {}", ToString(s.heads[pair.a]),
                                      ToString(s.heads[pair.b])),
                          Share3(pair.jsd), Share3(pair.bhattacharyya),
                          Share3(pair.cka), Share3(pair.ov_read),
                          Share3(pair.ov_write)});
  }
  WriteDrawn("{}\n{}", Bold(console, table.title), DrawTable(table, console));
}

void PrintGroups(const HeadSimilarity& s, double cut, const Console& console) {
  std::map<int64_t, std::string> groups;
  std::map<int64_t, size_t> sizes;
  for (size_t i = 0; i < s.heads.size(); ++i) {
    const int64_t group = s.group[i];
    if (sizes[group]++ > 0) groups[group] += ' ';
    groups[group] += ToString(s.heads[i]);
  }
  WriteDrawn("\n{}\n", Bold(console, "Groups"));
  size_t alone = 0;
  for (const auto& [group, members] : groups) {
    if (sizes[group] < 2) {
      ++alone;
    } else {
      WriteStdout("{}", Wrap(members, console.width, 2));
    }
  }
  WriteStdout(
      "{}", Wrap(fmt::format("{} {} like no other (mean Hellinger distance "
                             "above {:g}).",
                             alone, alone == 1 ? "head is" : "heads are", cut),
                 console.width, 2));
}

void Print(const HeadSimilarity& s, const Options& options) {
  const Console console = StdoutConsole();
  const SimilarityJob& how = options.similarity;
  if (s.twins.empty()) {
    WriteStdout("{}",
                Wrap(fmt::format("No two of {} heads are twins (JSD below "
                                 "{:g}).",
                                 s.heads.size(), how.twin),
                     console.width));
  } else {
    WriteStdout(
        "{}", Wrap(fmt::format(
                       "{} of the pairs among {} heads {} (JSD below "
                       "{:g}).",
                       s.twins.size(), s.heads.size(),
                       s.twins.size() == 1 ? "is a pair of twins" : "are twins",
                       how.twin),
                   console.width));
  }
  WriteStdout("\n");
  PrintPairs(s, static_cast<size_t>(options.top), console);
  PrintGroups(s, how.cut, console);
  WriteStdout(
      "\n{}",
      Wrap(fmt::format(
               "JSD: Jensen–Shannon divergence of attention rows, nats, {} "
               "sampled rows. Bhatt.: mean Bhattacharyya coefficient, {} rows. "
               "CKA of outputs, {} tokens. OV read, write: mean squared cosine "
               "of the principal angles between what W_V reads and W_O writes. "
               "Heads that rest on one token look alike whatever else they do: "
               "see CKA and OV beside JSD.",
               s.sampled_rows, s.rows, s.samples),
           console.width));
}

int Run(const Options& options) {
  options.run.engine.Require();
  RequireFiles(options.text.input.files);
  if (IsFirstRank()) RequireWritable(options.svg);
  SimilarityJob how = options.similarity;
  how.partial = KeptBy(how.partial, options.run, "similar");
  how.stop = StopOnInterrupt();
  Transformer model = OpenTransformer(options.run.model, options.run.engine,
                                      options.text.reading);
  HeadSimilarity similarity;
  {
    ProgressBar bar;
    how.on_progress = bar.on_progress();
    similarity = CompareHeads(model, options.text.input, how);
  }
  if (!IsFirstRank()) return kSucceeded;
  if (!options.svg.empty()) {
    WriteFileAtomically(
        options.svg,
        DrawSimilarity(similarity, "Like heads of " + model.info().name));
  }
  if (options.run.json) {
    WriteJson(WithModel(options.run.model, similarity.json).dump());
  } else {
    Print(similarity, options);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run, "A model's folder");
  AddWeightMemoryFlag(line, options->run.engine);
  AddTextFlags(line, options->text).Required();
  line.Option("--svg", options->svg, "Write the map and the matrix here");
  line.Option("--top", options->top, "Pairs to list").ShowDefault().Positive();
  AddFlags(line, options->similarity);
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace similar_command

const Command kSimilarCommand = {
    .name = "similar",
    .group = Group::kAnalyse,
    .summary = "Which heads duplicate which; groups of like heads, a map",
    .examples =
        "  headwise similar models/minilm-l6 --text novel.txt\n"
        "  headwise similar models/minilm-l6 --text corpus/ --svg like.svg\n"
        "  headwise similar assets/planted --text a.txt b.txt --json",
    .setup = similar_command::Setup,
    .ranks = true};

}  // namespace headwise
