// headwise info: what a model is, how many heads each layer has, what a run
// costs, and (--heads) what each head's matrices look like.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/summary.h"
#include "headwise/model/text_frame.h"
#include "headwise/nn/head_weights.h"
#include "headwise/report/terminal.h"
#include "headwise/tokenizer/piece_text.h"

namespace headwise {
namespace {

struct Options {
  std::string model;
  bool heads = false;
  bool json = false;
};

// 1234567 → "1.2 M"
std::string Short(double value) {
  const char* units[] = {"", " k", " M", " G", " T", " P", " E"};
  int unit = 0;
  while (value >= 999.5 && unit < 6) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", value)
                   : fmt::format("{:.3g}{}", value, units[unit]);
}

// "12 × 12", or "12, 11, 9" where layers differ.
std::string HeadCounts(const std::vector<LayerShape>& layers,
                       int64_t LayerShape::*member) {
  bool equal = true;
  std::string list;
  for (const LayerShape& layer : layers) {
    equal &= layer.*member == layers[0].*member;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", layer.*member);
  }
  return equal ? fmt::format("{} × {}", layers.size(), layers[0].*member)
               : list;
}

std::string PositionText(const ModelConfig& config) {
  switch (config.positions) {
    case Positions::kNone:
      return "no positions";
    case Positions::kLearned:
      return "learned positions";
    case Positions::kSinusoid:
      return "sinusoid positions";
    case Positions::kRotary:
      return fmt::format("rotary positions, base {:g}", config.rope.base);
  }
  return "";
}

// How heads are chosen; "" where all are always used.
std::string GateText(const GateConfig& gates) {
  switch (gates.kind) {
    case GateKind::kOpen:
      return "";
    case GateKind::kHardConcrete:
      return "hard concrete: one learned gate a head (--heads)";
    case GateKind::kMixture:
      return fmt::format("mixture: {} heads a token, {} of them shared",
                         gates.active, gates.shared);
  }
  return "";
}

// "  name             what", what is long on lines below each other.
std::string Fact(const char* name, const std::string& text, int width) {
  constexpr int kIndent = 19;
  return fmt::format("  {:<17}{}", name,
                     Wrap(text, width, kIndent).substr(kIndent));
}

// How the model's texts begin and end.
struct Reading {
  std::string in_words;
  Json json;
};

Reading ReadingOf(const Checkpoint& checkpoint) {
  const Tokenizer* tokenizer = nullptr;
  TokenFrame frame;
  try {
    tokenizer = checkpoint.FindTokenizer();
    if (tokenizer == nullptr) return {"no tokenizer: ids only", nullptr};
    frame = FrameOf(*tokenizer, checkpoint.config());
  } catch (const Error& error) {  // what the model is can still be told
    return {error.what(), nullptr};
  }
  const auto pieces = [&](const std::vector<int32_t>& ids) {
    std::vector<std::string> texts;
    for (const int32_t id : ids) texts.push_back(PieceText(*tokenizer, id));
    return texts;
  };
  const auto before = pieces(frame.before), after = pieces(frame.after);
  Reading reading;
  reading.in_words = before.empty()
                         ? fmt::format("begin with no token ({})", frame.why)
                         : fmt::format("begin with {} ({})",
                                       fmt::join(before, " "), frame.why);
  if (!after.empty()) {
    reading.in_words += fmt::format(", end with {}", fmt::join(after, " "));
  }
  reading.json = {{"begin", before},
                  {"begin_ids", frame.before},
                  {"why", frame.why},
                  {"end", after},
                  {"end_ids", frame.after}};
  return reading;
}

void PrintShape(const ModelConfig& c, const Reading& reading, int width) {
  const char* kind = c.encoder_decoder() ? "encoder–decoder"
                     : c.causal          ? "decoder, causal"
                                         : "encoder";
  std::string text = Wrap(
      fmt::format("{} ({}; {}), width {}, {}", c.model_type, kind,
                  c.norm_place == NormPlace::kPre ? "pre-norm" : "post-norm",
                  c.width, PositionText(c)),
      width);
  const auto add = [&](const char* name, const std::string& what) {
    text += Fact(name, what, width);
  };
  add("layers × heads",
      fmt::format("{}{}, head_dim {}", HeadCounts(c.layers, &LayerShape::heads),
                  c.encoder_decoder() ? " (encoder)" : "", c.head_dim));
  if (c.encoder_decoder()) {
    add("decoder", fmt::format("{} self, {} cross, head_dim {}",
                               HeadCounts(c.decoder, &LayerShape::heads),
                               HeadCounts(c.decoder, &LayerShape::cross_heads),
                               c.HeadDim(c.decoder[0])));
  }
  add("key/value heads", HeadCounts(c.layers, &LayerShape::kv_heads));
  if (const std::string gates = GateText(c.gates); !gates.empty()) {
    add("gates", gates);
  }
  if (c.spans.ramp > 0) {
    add("spans", fmt::format("learned, a ramp of {} (--heads)", c.spans.ramp));
  }
  add("feed-forward", fmt::format("{}{}", c.hidden, c.gated ? ", gated" : ""));
  add("vocabulary", std::to_string(c.vocabulary));
  add("context", std::to_string(c.context));
  add("texts", reading.in_words);
  fmt::print("{}", text);
}

// Powers of four from 128 on, and the model's own context, at which it ends.
std::vector<int64_t> RunLengths(const ModelConfig& config) {
  constexpr int64_t kMost = 131072;
  const int64_t most = config.context > 0 ? config.context : kMost;
  std::vector<int64_t> lengths;
  for (int64_t n = 128; n < most && n <= kMost; n *= 4) lengths.push_back(n);
  if (most <= kMost) lengths.push_back(most);
  return lengths;
}

void PrintCosts(const ModelSummary& s, const Console& console) {
  std::string types;
  for (const auto& [type, count] : s.types) {
    types += (types.empty() ? "" : ", ") + type;
  }
  fmt::print(
      "{}\n",
      Fact("parameters",
           fmt::format("{} ({} in embeddings), {}B as {}",
                       Short(static_cast<double>(s.parameters)),
                       Short(static_cast<double>(s.embedding_parameters)),
                       Short(static_cast<double>(s.file_bytes)), types),
           console.width));
  StudyTable table;
  table.columns = {"tokens", "FLOP", "attention", "weights",
                   "cache",  "run",  "all maps"};
  for (const int64_t n : RunLengths(s.config)) {
    const RunCost cost = CostOf(s.config, n);
    table.rows.push_back(
        {std::to_string(n), Short(cost.flops()),
         fmt::format("{:.0f} %", 100 * cost.attention_flops / cost.flops()),
         Short(4 * static_cast<double>(s.parameters)) + "B",
         Short(cost.cache_bytes) + "B", Short(cost.stream_bytes) + "B",
         Short(cost.maps_bytes) + "B"});
  }
  fmt::print("{}{}", DrawTable(table, console),
             Wrap("weights: f32, as run; cache: keys and values; run: "
                  "activations of one layer; all maps: what keeping every "
                  "attention matrix would take",
                  console.width));
}

Json HeadsJson(const Model& model) {
  Context context;
  Json heads = Json::array();
  for (const HeadRef& head : AllHeads(model)) {
    const AttentionLayer& layer =
        *AttentionLayers(model, head.kind)[head.layer];
    const HeadWeights weights = WeightsOfHead(context, layer, head.head);
    heads.push_back({{"layer", head.layer},
                     {"head", head.head},
                     {"kind", Name(head.kind)},
                     {"qk_norm", QkNorm(context, weights)},
                     {"ov_norm", OvNorm(context, weights)}});
    // The scale of W_Q and W_K is then not in the scores.
    if (NormsQueries(layer)) heads.back()["query_norms"] = true;
    if (const Parameter& gate = layer.weights().gates.weights().log_alpha) {
      heads.back()["gate"] =
          ConcreteGate(ToF32(context, gate).As<float>()[head.head]);
    }
    if (const Parameter& span = layer.weights().spans.spans()) {
      heads.back()["span"] =
          static_cast<double>(layer.weights().spans.config().limit) *
          std::clamp(ToF32(context, span).As<float>()[head.head], 0.0f, 1.0f);
    }
  }
  return heads;
}

Json ToJson(const ModelSummary& s) {
  const ModelConfig& c = s.config;
  auto layers = [](const std::vector<LayerShape>& shapes) {
    Json list = Json::array();
    for (const LayerShape& shape : shapes) {
      list.push_back({{"heads", shape.heads},
                      {"kv_heads", shape.kv_heads},
                      {"cross_heads", shape.cross_heads},
                      {"window", shape.window}});
    }
    return list;
  };
  Json costs = Json::array();
  for (const int64_t n : RunLengths(c)) {
    const RunCost cost = CostOf(c, n);
    costs.push_back({{"tokens", n},
                     {"flops", cost.flops()},
                     {"attention_flops", cost.attention_flops},
                     {"cache_bytes", cost.cache_bytes},
                     {"run_bytes", cost.stream_bytes},
                     {"maps_bytes", cost.maps_bytes}});
  }
  return {{"family", c.family},
          {"model_type", c.model_type},
          {"width", c.width},
          {"head_dim", c.head_dim},
          {"feed_forward", c.hidden},
          {"vocabulary", c.vocabulary},
          {"context", c.context},
          {"causal", c.causal},
          {"gates", Name(c.gates.kind)},
          {"shared_heads", c.gates.shared},
          {"active_heads", c.gates.active},
          {"span_ramp", c.spans.ramp},
          {"layers", layers(c.layers)},
          {"decoder_layers", layers(c.decoder)},
          {"tensors", s.tensors},
          {"parameters", s.parameters},
          {"embedding_parameters", s.embedding_parameters},
          {"file_bytes", s.file_bytes},
          {"types", s.types},
          {"costs", costs}};
}

int Run(const Options& options) {
  const Checkpoint checkpoint(options.model);
  const ModelSummary summary = Summarise(checkpoint);
  const Reading reading = ReadingOf(checkpoint);
  if (options.json) {
    Json json = ToJson(summary);
    json["texts"] = reading.json;
    if (options.heads) json["heads"] = HeadsJson(checkpoint.model());
    fmt::print("{}\n", json.dump(2));
    return kSucceeded;
  }
  const Console console = StdoutConsole();
  PrintShape(summary.config, reading, console.width);
  PrintCosts(summary, console);
  if (!options.heads) return kSucceeded;
  StudyTable table;
  table.columns = {"head", "‖W_QK‖", "‖W_OV‖"};
  if (summary.config.gates.kind == GateKind::kHardConcrete) {
    table.columns.emplace_back("gate");
  }
  if (summary.config.spans.ramp > 0) table.columns.emplace_back("span");
  bool query_norms = false;
  for (const auto& head : HeadsJson(checkpoint.model())) {
    query_norms |= head.contains("query_norms");
    const std::string& kind = head["kind"].text();
    std::vector<std::string> row = {
        fmt::format("{}{}.{}", kind == "self" ? "" : kind + ":",
                    head["layer"].get<int64_t>(), head["head"].get<int64_t>()),
        fmt::format("{:.3f}", head["qk_norm"].get<double>()),
        fmt::format("{:.3f}", head["ov_norm"].get<double>())};
    if (head.contains("gate")) {
      row.push_back(fmt::format("{:.2f}", head["gate"].get<double>()));
    }
    if (head.contains("span")) {
      row.push_back(fmt::format("{:.1f}", head["span"].get<double>()));
    }
    row.resize(table.columns.size());
    table.rows.push_back(std::move(row));
  }
  fmt::print("\n{}", DrawTable(table, console));
  if (query_norms) {
    fmt::print("{}",
               Wrap("Queries and keys are normed head by head: the norms' "
                    "gains are in W_QK, their division by the root mean square "
                    "is not, and takes the scale of W_Q and W_K out of the "
                    "scores.",
                    console.width));
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model,
              "A folder with config.json and model.safetensors")
      .Required();
  line.Flag("--heads", options->heads,
            "Also the size of each head's matching and content matrices");
  line.Flag("--json", options->json, "Print JSON");
  return [options] { return Run(*options); };
}

}  // namespace

const Command kInfoCommand = {
    .name = "info",
    .group = Group::kTools,
    .summary = "What a model is: shapes, parameters, heads, what a run costs",
    .examples =
        "  headwise info models/minilm-l6\n"
        "  headwise info models/minilm-l6 --heads\n"
        "  headwise info models/minilm-l6 --json",
    .setup = Setup};

}  // namespace headwise
