// headwise compose: which heads feed which.
#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <string>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "headwise/base/atomic_file.h"
#include "headwise/heads/composition/composition.h"
#include "headwise/model/checkpoint.h"
#include "headwise/report/graph_svg.h"
#include "headwise/report/terminal.h"
#include "interrupt.h"
#include "model_name.h"
#include "progress_bar.h"

namespace headwise {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> text;
  std::string svg;
  std::string dot;
  std::string by = "weights";
  int64_t context = 0;
  int64_t tokens = 256;
  int64_t top = 30;
  bool json = false;
  int threads = 0;
};

void Print(const Composition& c, const Options& options) {
  const Console console = StdoutConsole();
  const bool effects = c.effect_tokens > 0;
  const size_t count = c.Shown(static_cast<size_t>(options.top));
  StudyTable table;
  table.columns = {"sender → receiver", "into", "score", "over chance"};
  if (effects) table.columns.emplace_back("effect");
  for (size_t i = 0; i < count; ++i) {
    const HeadEdge& edge = c.edges[i];
    std::vector<std::string> row = {
        fmt::format("{} → {}", ToString(c.heads[edge.sender]),
                    ToString(c.heads[edge.receiver])),
        Name(edge.input), fmt::format("{:.3f}", edge.score),
        fmt::format("{:+.3f}", c.Over(edge))};
    if (effects) row.push_back(fmt::format("{:.1f} %", 100 * edge.effect));
    table.rows.push_back(std::move(row));
  }
  const std::string title =
      fmt::format("The {} strongest of {} edges, by {}", count, c.edges.size(),
                  options.by == "effect" ? "effect" : "score");
  fmt::print("{}{}", Bold(console, Wrap(title, console.width)),
             DrawTable(table, console));
  std::string note = fmt::format(
      "score: ‖W_OV W‖ / (‖W_OV‖ ‖W‖) of the weights as they act before the "
      "norms, W being W_QK (q), its transpose (k) or W_OV (v); chance gives "
      "{:.3f}.",
      c.baseline);
  if (c.rotary) note += " Rotary positions: at offset 0.";
  if (effects) {
    note += fmt::format(
        " effect: relative change of the receiver's queries, keys or values "
        "when the sender's output is replaced by its {}, {} tokens.",
        c.ablation, c.effect_tokens);
  }
  fmt::print("\n{}", Wrap(note, console.width));
}

Composition Measure(const Options& options, const Model& model,
                    const std::stop_token& stop) {
  std::vector<TokenWindow> windows;
  if (!options.text.empty() && model.decoder() == nullptr) {
    const auto tokenizer = Tokenizer::Load(options.model);
    const int64_t context = ContextOf(model.config(), options.context);
    const WindowCutter cutter(
        *tokenizer, model.config(),
        {.context = std::min(context, std::max<int64_t>(8, options.tokens))});
    windows = ReadWindows(options.text, cutter, options.tokens);
  }
  Context context({.threads = options.threads, .implementations = ""});
  ProgressBar bar;
  const CompositionOptions how{.progress = bar.callback(), .stop = stop};
  Composition composition = MeasureComposition(context, model, how);
  if (!options.text.empty()) {
    MeasureEffects(context, model, windows, how, composition);
    if (options.by == "effect") SortByEffect(composition);
  }
  return composition;
}

int Run(const Options& options) {
  if (options.by == "effect" && options.text.empty()) {
    throw UsageError("--by effect needs --text");
  }
  const std::stop_token stop = StopOnInterrupt();
  const auto model = OpenModel(options.model);
  const Composition composition = Measure(options, *model, stop);
  const auto top = static_cast<size_t>(options.top);
  if (!options.svg.empty()) {
    WriteFileAtomically(
        options.svg,
        CompositionSvg(composition, top,
                       "Heads that feed heads, " + ModelName(options.model)));
  }
  if (!options.dot.empty()) {
    WriteFileAtomically(options.dot, ToDot(composition, top));
  }
  if (options.json) {
    nlohmann::ordered_json json = {{"model", options.model}};
    json.update(ToJson(composition, top));
    fmt::print("{}\n", json.dump());
  } else {
    Print(composition, options);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder").Required();
  line.Option("--text", options->text,
              "Also measure path effects on these files or folders")
      .Several();
  line.Option("--top", options->top, "Edges to list and draw")
      .ShowDefault()
      .Positive();
  line.Option("--by", options->by, "Order by weights or by effect")
      .ShowDefault()
      .OneOf({"weights", "effect"});
  line.Option("--svg", options->svg, "Write the layered graph here");
  line.Option("--dot", options->dot, "Write the graph for Graphviz here");
  line.Option("--tokens", options->tokens,
              "Tokens of text for path effects: one run a head")
      .ShowDefault()
      .Positive();
  line.Option("--context", options->context,
              "Tokens of a window; 0: 512, or the model's context");
  line.Flag("--json", options->json, "Print JSON");
  line.Option("--threads", options->threads,
              "Threads to use; 0: all cores. Results do not depend on it");
  return [options] { return Run(*options); };
}

}  // namespace

const Command kComposeCommand = {
    .name = "compose",
    .group = Group::kAnalyse,
    .summary = "Which heads feed which: composition, path effects, graph",
    .examples =
        "  headwise compose models/minilm-l6\n"
        "  headwise compose models/minilm-l6 --svg graph.svg --dot graph.dot\n"
        "  headwise compose models/minimind2-small --text novel.txt --by "
        "effect",
    .setup = Setup};

}  // namespace headwise
