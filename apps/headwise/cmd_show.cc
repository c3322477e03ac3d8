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
#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/model/checkpoint.h"
#include "headwise/report/attention_svg.h"
#include "headwise/report/attention_text.h"
#include "headwise/report/terminal.h"
#include "headwise/runtime/attention_maps.h"
#include "headwise/runtime/token_labels.h"
#include "headwise/study/support/cat_sat.h"
#include "interrupt.h"
#include "model_name.h"
#include "past_context.h"
#include "progress_bar.h"
#include "text_argument.h"
#include "text_reading.h"

namespace headwise {
namespace {

struct Options {
  std::string model;
  TextArgument text;
  std::string target;
  std::string heads;
  std::string example;
  std::string svg;
  std::optional<int64_t> query;
  int64_t context = 0;
  int64_t top = 5;
  int64_t rows = 24;
  int64_t cells = 96;
  bool json = false;
  EngineFlags engine;
  ReadingFlags reading;
};

struct Shown {
  std::vector<std::string> source;
  std::vector<std::string> target;
  std::vector<MappedHead> maps;

  const std::vector<std::string>& queries(const MappedHead& map) const {
    return map.head.kind == AttentionKind::kSelf ? source : target;
  }
  const std::vector<std::string>& keys(const MappedHead& map) const {
    return map.head.kind == AttentionKind::kDecoder ? target : source;
  }
};

// Tokens that are shown unless --context asks for more: a run takes time that
// grows with their square.
constexpr int64_t kMostTokens = 8192;
// No tokenizer's tokens are longer on average.
constexpr size_t kBytesPerToken = 64;

// How many tokens of a text may be run.
int64_t Room(const Options& options, const ModelConfig& config) {
  if (options.context > 0) return ContextOf(config, options.context);
  const bool open = config.positions == Positions::kRotary ||
                    config.positions == Positions::kNone;
  return open || config.context == 0 ? kMostTokens
                                     : std::min(kMostTokens, config.context);
}

void WarnLeftOut(const Options& options, const ModelConfig& config,
                 int64_t shown) {
  const bool can_more = config.positions == Positions::kRotary ||
                        config.positions == Positions::kNone ||
                        shown < config.context;
  WriteStderr("warning: [show] the first {} tokens of the text are shown{}\n",
              shown,
              options.context > 0 ? ""
              : can_more ? "; --context shows more, in a time that grows with "
                           "their square"
                         : ", all that the model has positions for");
}

TokenWindow Window(const Options& options, const Model& model,
                   const Tokenizer& tokenizer) {
  const int64_t room = Room(options, model.config());
  GivenText given =
      ReadText(options.text, static_cast<size_t>(room) * kBytesPerToken);
  if (model.decoder() != nullptr) {
    if (!options.target.empty()) given.text += '\t' + options.target;
    if (given.text.find('\t') == given.text.npos) {
      throw UsageError("an encoder–decoder also needs --target TEXT");
    }
  }
  const WindowCutter cutter(tokenizer, model.config(), {.context = room});
  Document document;
  document.name = options.text.path;
  document.text = std::move(given.text);
  std::vector<TokenWindow> windows = cutter.Cut(document);
  if (windows.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"show", "a text of at least two tokens", "fewer", ""});
  }
  if (given.more || windows.size() > 1) {
    WarnLeftOut(options, model.config(), Longest({windows.data(), 1}));
  }
  return std::move(windows[0]);
}

Shown Map(const Options& options) {
  const Checkpoint checkpoint(options.model, options.reading.options(),
                              options.engine.compute());
  const Model& model = checkpoint.model();
  const std::vector<HeadRef> heads = ParseHeads(options.heads, model);
  const Tokenizer& tokenizer = checkpoint.tokenizer();
  const TokenWindow window = Window(options, model, tokenizer);
  RequireRoom(model.config(), Longest({&window, 1}));
  WarnPastContext(model.config(), Longest({&window, 1}));
  WarnUnknownScript(tokenizer, std::span(&window, 1));
  Context context(options.engine.context());
  ProgressBar bar;
  MapOptions how;
  how.most_cells = options.cells;
  how.top = options.top;
  how.most_queries = options.rows;
  how.query = options.query;
  how.progress = bar.callback();
  how.stop = StopOnInterrupt();
  return {TokenLabels(window.source, tokenizer),
          TokenLabels(window.target, tokenizer),
          MapHeads(context, model, window, heads, how)};
}

// Labels of map rows: tokens, or the first position of each pooled row.
std::vector<std::string> CellLabels(const std::vector<std::string>& tokens,
                                    int64_t cells) {
  const auto size = static_cast<int64_t>(tokens.size());
  if (cells == size) return tokens;
  std::vector<std::string> labels;
  for (int64_t i = 0; i < cells; ++i) {
    labels.push_back(std::to_string(i * size / cells));
  }
  return labels;
}

HeatMap Picture(const Shown& shown, const MappedHead& map) {
  HeatMap picture;
  picture.title = "Head " + ToString(map.head);
  if (map.pooled()) {
    picture.title += fmt::format(" · {} × {} tokens, largest of each cell",
                                 map.queries, map.keys);
  }
  picture.rows = CellLabels(shown.queries(map), map.rows);
  picture.columns = CellLabels(shown.keys(map), map.columns);
  for (int64_t r = 0; r < map.rows; ++r) {
    for (int64_t c = 0; c < map.columns; ++c) {
      const float share = map.values[r * map.columns + c];
      picture.values.push_back(!map.Sees(r, c)  ? NAN
                               : share < 0.005F ? 0  // no rows of .00
                                                : share);
    }
  }
  return picture;
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

void PrintHead(const Shown& shown, const MappedHead& map,
               const Options& options, const Console& console) {
  fmt::print("{}\n", Bold(console, "Head " + ToString(map.head)));
  const std::vector<std::string>& keys = shown.keys(map);
  const std::vector<std::string>& queries = shown.queries(map);
  const float largest = *std::max_element(map.strip.begin(), map.strip.end());
  fmt::print("{}",
             Dim(console,
                 Wrap(options.query
                          ? fmt::format("what \"{}\" (token {}) looks at",
                                        queries[*options.query], *options.query)
                          : "shaded by the mean share each token gets of "
                            "those that see it",
                      console.width, 2)));
  // A long text would fill screens: its beginning, then the pooled map.
  constexpr size_t kMostDrawn = 300;
  const size_t drawn = std::min(kMostDrawn, keys.size());
  fmt::print("{}", DrawShadedTokens(std::span(keys).first(drawn),
                                    std::span(map.strip).first(drawn), largest,
                                    console));
  if (drawn < keys.size()) {
    fmt::print("  … {} more tokens\n", keys.size() - drawn);
  }
  if (map.pooled()) {
    fmt::print("{}{}",
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
  fmt::print("{}", DrawKeyLists(lists, console));
  if (static_cast<int64_t>(lists.size()) < map.queries && !options.query) {
    fmt::print("{}", Dim(console, Wrap(fmt::format("{} of {} queries, evenly "
                                                   "spread; --rows for more",
                                                   lists.size(), map.queries),
                                       console.width, 2)));
  }
  fmt::print("\n");
}

Json ToJson(const Shown& shown, const Options& options) {
  Json heads = Json::array();
  for (const MappedHead& map : shown.maps) {
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
               {"tokens", shown.source}};
  if (!shown.target.empty()) json["target_tokens"] = shown.target;
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
    fmt::print("{}\n", json.dump());
    return kSucceeded;
  }
  const Console console = StdoutConsole();
  for (const HeatMap& map : maps) {
    fmt::print("{}\n", DrawPicture(map, console));
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
  const Shown shown = Map(options);
  if (!options.svg.empty()) {
    std::vector<HeatMap> pictures;
    for (const MappedHead& map : shown.maps) {
      pictures.push_back(Picture(shown, map));
    }
    WriteFileAtomically(
        options.svg,
        AttentionSvg(pictures, "Attention of " + ModelName(options.model), ""));
  }
  if (options.json) {
    fmt::print("{}\n", ToJson(shown, options).dump());
    return kSucceeded;
  }
  const Console console = StdoutConsole();
  for (const MappedHead& map : shown.maps) {
    PrintHead(shown, map, options, console);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder");
  options->text.Declare(line);
  line.Option("--target", options->target,
              "Encoder–decoders: what the decoder reads, if the text does not "
              "hold source<TAB>target");
  line.Option("--context", options->context,
              "Tokens to show, from the text's beginning; 0: all that the "
              "model has positions for, 8192 at most")
      .NotNegative();
  line.Option("--heads", options->heads,
              "Heads as layer.head, 5.1,4.0; cross:2.3 for cross-attention");
  line.Option("--query", options->query,
              "Only what this token looks at, counted from 0")
      .NotNegative();
  line.Option("--top", options->top, "Keys to name for each query")
      .ShowDefault()
      .Positive();
  line.Option("--rows", options->rows, "Queries to list")
      .ShowDefault()
      .Positive();
  line.Option("--cells", options->cells,
              "Rows and columns of the map; longer texts are pooled")
      .ShowDefault()
      .Between(1, 512);
  line.Option("--svg", options->svg, "Write the maps and arcs here");
  line.Option("--example", options->example,
              "Draw known pictures instead of a model: cat-sat");
  AddReadingFlags(line, options->reading);
  line.Flag("--json", options->json, "Print JSON");
  AddEngineFlags(line, options->engine);
  return [options] { return Run(*options); };
}

}  // namespace

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
    .setup = Setup,
    .lower = "--context or --cells"};

}  // namespace headwise
