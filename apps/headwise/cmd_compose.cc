// headwise compose: which heads feed which.
#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <string>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/compose.h"
#include "headwise/drawing/terminal.h"
#include "headwise/model.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"
#include "run_flags.h"

namespace headwise {
namespace compose_command {
namespace {

struct Options {
  RunFlags run;
  TextFlags text = {.input = {.tokens = 256}, .reading = {}};
  std::string svg;
  std::string dot;
  int64_t top = 30;
  CompositionJob composition;
};

// "1.4", or "1.4–7" for heads that share what is fed.
std::string NameOf(const Composition& c, const std::vector<size_t>& heads) {
  const std::string first = ToString(c.heads[heads.front()]);
  return heads.size() == 1
             ? first
             : first + "–" + std::to_string(c.heads[heads.back()].head);
}

void Print(const Composition& c, const Options& options) {
  const Console console = StdoutConsole();
  const bool effects = c.effect_tokens > 0;
  const std::vector<EdgeRow> edges = c.Rows(static_cast<size_t>(options.top));
  StudyTable table;
  table.columns = {"sender → receiver", "into", "score", "over chance"};
  if (effects) table.columns.emplace_back("effect");
  bool shared = false;
  for (const EdgeRow& one : edges) {
    const HeadEdge& edge = one.edge;
    shared |= one.receivers.size() > 1;
    std::vector<std::string> row = {
        fmt::format("{} → {}", ToString(c.heads[edge.sender]),
                    NameOf(c, one.receivers)),
        Name(edge.input), fmt::format("{:.3f}", edge.score),
        fmt::format("{:+.3f}", c.Over(edge))};
    if (effects) row.push_back(fmt::format("{:.1f} %", 100 * edge.effect));
    table.rows.push_back(std::move(row));
  }
  const std::string title =
      fmt::format("The {} strongest of {} edges, by {}", edges.size(),
                  c.edges.size(), c.by_effect ? "effect" : "score");
  WriteDrawn("{}{}", Bold(console, Wrap(title, console.width)),
             DrawTable(table, console));
  std::string note = fmt::format(
      "score: ‖W_OV W‖ / (‖W_OV‖ ‖W‖) of the weights as they act before the "
      "norms, W being W_QK (q), its transpose (k) or W_OV (v); chance gives "
      "{:.3f}.",
      c.baseline);
  if (c.rotary) note += " Rotary positions: at offset 0.";
  if (c.query_norms) {
    note +=
        " Queries and keys are normed head by head: the norms' gains are in "
        "W_QK, their division by the root mean square is not (it scales a "
        "head's scores token by token).";
  }
  if (shared) {
    note +=
        " Heads that share keys and values stand in one row, with the "
        "strongest of their scores.";
  }
  if (effects) {
    note += fmt::format(
        " effect: relative change of the receiver's queries, keys or values "
        "when the sender's output is replaced by its {}, {} tokens.",
        c.ablation, c.effect_tokens);
  }
  WriteStdout("\n{}", Wrap(note, console.width));
}

Composition Measure(const Options& options, Transformer& model) {
  ProgressBar bar;
  CompositionJob job = options.composition;
  job.on_progress = bar.on_progress();
  job.stop = StopOnInterrupt();
  return options.text.input.files.empty()
             ? ComposeHeads(model, job)
             : ComposeHeads(model, options.text.input, job);
}

int Run(const Options& options) {
  options.run.engine.Require();
  if (options.composition.by == EdgeOrder::kEffect &&
      options.text.input.files.empty()) {
    throw UsageError("--by effect needs --text");
  }
  RequireWritable(options.svg);
  RequireWritable(options.dot);
  StopOnInterrupt();
  Transformer model = OpenTransformer(options.run.model, options.run.engine,
                                      options.text.reading);
  const Composition composition = Measure(options, model);
  const auto top = static_cast<size_t>(options.top);
  if (!options.svg.empty()) {
    WriteFileAtomically(options.svg, DrawComposition(composition, top,
                                                     "Heads that feed heads, " +
                                                         model.info().name));
  }
  if (!options.dot.empty()) {
    WriteFileAtomically(options.dot, DotText(composition, top));
  }
  if (options.run.json) {
    WriteJson(WithModel(options.run.model, JsonText(composition, top)).dump());
  } else {
    Print(composition, options);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run, "A model's folder");
  AddWeightMemoryFlag(line, options->run.engine);
  AddTextFlags(line, options->text);
  line.Option("--top", options->top, "Edges to list and draw")
      .ShowDefault()
      .Positive();
  AddFlags(line, options->composition);
  line.Option("--svg", options->svg, "Write the layered graph here");
  line.Option("--dot", options->dot, "Write the graph for Graphviz here");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace compose_command

const Command kComposeCommand = {
    .name = "compose",
    .group = Group::kAnalyse,
    .summary = "Which heads feed which: composition, path effects, graph",
    .examples =
        "  headwise compose models/minilm-l6\n"
        "  headwise compose models/minilm-l6 --svg graph.svg --dot graph.dot\n"
        "  headwise compose models/minimind2-small --text novel.txt --by "
        "effect",
    .setup = compose_command::Setup};

}  // namespace headwise
