// headwise show: attention of chosen heads on a text, in the terminal and as
// SVG.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/drawing/pictures.h"
#include "headwise/drawing/terminal.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/show.h"
#include "headwise/text_input.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"
#include "text_argument.h"

namespace headwise {
namespace show_command {
namespace {

struct Options {
  std::string model;
  TextArgument text;
  std::string heads;
  std::string example;
  std::string svg;
  ShowJob show;
  int64_t context = 0;
  bool json = false;
  EngineFlags engine;
  ReadingFlags reading;
};

ShownAttention Show(const Options& options, Transformer& model) {
  const std::vector<HeadRef> heads = ParseHeads(options.heads, model);
  model.tokenizer();  // throws where there is none
  const TextInput text = InputOf(options.text, options.context);
  if (model.info().encoder_decoder && !options.show.target &&
      options.text.path.empty() &&
      options.text.sentence.find('\t') == std::string::npos) {
    throw UsageError("an encoder–decoder also needs --target TEXT");
  }
  ProgressBar bar;
  ShowJob job = options.show;
  job.on_progress = bar.on_progress();
  job.stop = StopOnInterrupt();
  return ShowAttention(model, text, heads, job);
}

// One character a cell, as many as the console has room for.
std::string PooledText(const MappedHead& map, const Console& console) {
  constexpr const char* kShades[] = {" ", "░", "▒", "▓", "█"};
  const int64_t cells = std::min<int64_t>(map.columns, console.width - 4);
  const int64_t lines =
      std::max<int64_t>(1, map.rows * cells / map.columns / 2);
  std::string out;
  for (int64_t r = 0; r < lines; ++r) {
    std::string line = "  ";
    for (int64_t c = 0; c < cells; ++c) {
      float most = 0;
      for (int64_t i = r * map.rows / lines; i < (r + 1) * map.rows / lines;
           ++i) {
        for (int64_t j = c * map.columns / cells;
             j < std::max((c + 1) * map.columns / cells,
                          c * map.columns / cells + 1);
             ++j) {
          most = std::max(most, map.values[i * map.columns + j]);
        }
      }
      line += kShades[std::min(4, static_cast<int>(most * 4.999F))];
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

void PrintHead(const ShownAttention& shown, const MappedHead& map,
               const Options& options, const Console& console) {
  WriteDrawn("{}\n", Bold(console, "Head " + ToString(map.head)));
  const std::vector<std::string>& keys = shown.Keys(map);
  const std::vector<std::string>& queries = shown.Queries(map);
  const float largest = *std::max_element(map.strip.begin(), map.strip.end());
  WriteDrawn("{}", Dim(console,
                       Wrap(options.show.query
                                ? fmt::format("what \"{}\" (token {}) looks at",
                                              queries[*options.show.query],
                                              *options.show.query)
                                : "shaded by the mean share each token gets of "
                                  "those that see it",
                            console.width, 2)));
  // A long text would fill screens: its beginning, then the pooled map.
  constexpr size_t kMostDrawn = 300;
  const size_t drawn = std::min(kMostDrawn, keys.size());
  WriteDrawn("{}", DrawShadedTokens(std::span(keys).first(drawn),
                                    std::span(map.strip).first(drawn), largest,
                                    console));
  if (drawn < keys.size()) {
    WriteStdout("  … {} more tokens\n", keys.size() - drawn);
  }
  if (map.pooled()) {
    WriteDrawn("{}{}",
               Dim(console, fmt::format("  {} × {} tokens, rows look at "
                                        "columns\n",
                                        map.queries, map.keys)),
               PooledText(map, console));
  }
  std::vector<KeyList> lists;
  for (size_t i = 0; i < map.top_queries.size(); ++i) {
    KeyList list{queries[map.top_queries[i]], {}};
    for (int64_t t = 0; t < map.top; ++t) {
      const int32_t key = map.top_keys[i * map.top + t];
      const float share = map.top_shares[i * map.top + t];
      if (key < 0 || share < 0.005F) break;
      list.keys.emplace_back(keys[key], share);
    }
    lists.push_back(std::move(list));
  }
  WriteDrawn("{}", DrawKeyLists(lists, console));
  if (static_cast<int64_t>(lists.size()) < map.queries && !options.show.query) {
    WriteDrawn("{}", Dim(console, Wrap(fmt::format("{} of {} queries, evenly "
                                                   "spread; --queries for more",
                                                   lists.size(), map.queries),
                                       console.width, 2)));
  }
  WriteStdout("\n");
}

Json ToJson(const ShownAttention& shown, const Options& options) {
  Json heads = Json::array();
  for (const MappedHead& map : shown.heads) {
    Json rows = Json::array();
    for (int64_t r = 0; r < map.rows; ++r) {
      const auto from = map.values.begin() + r * map.columns;
      rows.push_back(std::vector<float>(from, from + map.columns));
    }
    Json top = Json::array();
    for (size_t i = 0; i < map.top_queries.size(); ++i) {
      Json keys = Json::array();
      for (int64_t t = 0; t < map.top; ++t) {
        const auto at = static_cast<int64_t>(i) * map.top + t;
        if (map.top_keys[at] < 0) break;
        keys.push_back(
            {{"key", map.top_keys[at]}, {"share", map.top_shares[at]}});
      }
      top.push_back({{"query", map.top_queries[i]}, {"keys", std::move(keys)}});
    }
    heads.push_back({{"head", ToString(map.head)},
                     {"queries", map.queries},
                     {"keys", map.keys},
                     {"pooled", map.pooled()},
                     {"map", std::move(rows)},
                     {"strip", map.strip},
                     {"top", std::move(top)}});
  }
  Json json = {{"format", "headwise.show/1"},
               {"model", options.model},
               {"tokens", shown.tokens}};
  if (!shown.target_tokens.empty()) {
    json["target_tokens"] = shown.target_tokens;
  }
  if (options.show.query) json["query"] = *options.show.query;
  json["heads"] = std::move(heads);
  return json;
}

int RunExample(const Options& options) {
  if (options.example != "cat-sat") {
    throw UsageError("unknown example \"" + options.example +
                     "\"; there is cat-sat");
  }
  const std::vector<HeatMap> maps = CatSatExamples();
  if (!options.svg.empty()) {
    WriteFileAtomically(
        options.svg,
        AttentionSvg(maps, "The cat sat on the mat",
                     "Drawn from texts about attention, not from a model."));
  }
  if (options.json) {
    Json json = Json::array();
    for (const HeatMap& map : maps) {
      json.push_back({{"title", map.title},
                      {"rows", map.rows},
                      {"columns", map.columns},
                      {"values", map.values}});
    }
    WriteJson(json.dump());
    return kSucceeded;
  }
  const Console console = StdoutConsole();
  for (const HeatMap& map : maps) {
    WriteDrawn("{}\n", DrawPicture(map, console));
  }
  return kSucceeded;
}

int Run(const Options& options) {
  if (!options.example.empty()) return RunExample(options);
  if (options.model.empty()) throw UsageError("expected MODEL or --example");
  options.text.Require();
  options.engine.Require();
  if (options.heads.empty()) {
    throw UsageError("expected --heads, such as 5.1,4.0");
  }
  RequireWritable(options.svg);
  Transformer model =
      OpenTransformer(options.model, options.engine, options.reading);
  const ShownAttention shown = Show(options, model);
  if (!options.svg.empty()) {
    WriteFileAtomically(
        options.svg, DrawAttention(shown, "Attention of " + model.info().name));
  }
  if (options.json) {
    WriteJson(ToJson(shown, options).dump());
    return kSucceeded;
  }
  const Console console = StdoutConsole();
  for (const MappedHead& map : shown.heads) {
    PrintHead(shown, map, options, console);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder");
  options->text.Declare(line);
  line.Option("--context", options->context,
              "Tokens to show, from the text's beginning; 0: all that the "
              "model has positions for, 8192 at most")
      .NotNegative();
  line.Option("--heads", options->heads,
              "Heads as layer.head, 5.1,4.0; cross:2.3 for cross-attention");
  AddFlags(line, options->show);
  line.Option("--svg", options->svg, "Write the maps and arcs here");
  line.Option("--example", options->example,
              "Draw known pictures instead of a model: cat-sat");
  AddReadingFlags(line, options->reading);
  line.Flag("--json", options->json, "Print JSON (docs/show.schema.json)");
  AddEngineFlags(line, options->engine);
  AddWeightMemoryFlag(line, options->engine);
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace show_command

const Command kShowCommand = {
    .name = "show",
    .group = Group::kUnderstand,
    .summary = "Attention of chosen heads on a text, drawn",
    .examples =
        "  headwise show assets/planted \"The cat sat. The cat\" "
        "--heads 0.0,1.0\n"
        "  headwise show models/minilm-l6 \"The cat sat\" --heads 0.2 "
        "--svg cat.svg\n"
        "  headwise show models/minimind2-small --text novel.txt --heads 5.1 "
        "--query 40\n"
        "  headwise show --example cat-sat",
    .setup = show_command::Setup,
    .lower = "--context or --cells"};

}  // namespace headwise
