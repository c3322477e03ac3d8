// headwise info: what a model is, how many heads each layer has, what a run
// costs, and (--heads) what each head's matrices look like.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "headwise/base/json.h"
#include "headwise/drawing/terminal.h"
#include "headwise/error.h"
#include "headwise/head_weights.h"
#include "headwise/model.h"
#include "headwise/model_info.h"

namespace headwise {
namespace info_command {
namespace {

struct Options {
  std::string model;
  bool heads = false;
  bool experts = false;
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
std::string HeadCounts(const std::vector<LayerInfo>& layers,
                       int64_t LayerInfo::*member) {
  bool equal = true;
  std::string list;
  for (const LayerInfo& layer : layers) {
    equal &= layer.*member == layers[0].*member;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", layer.*member);
  }
  return equal ? fmt::format("{} × {}", layers.size(), layers[0].*member)
               : list;
}

std::string PositionText(const ModelInfo& info) {
  if (info.positions == "none") return "no positions";
  if (info.positions != "rotary") return info.positions + " positions";
  return fmt::format("rotary positions, base {:g}", info.rotary_base);
}

// Which layers share their weights; "" where none do.
std::string SharedText(const std::vector<LayerInfo>& layers) {
  std::map<int64_t, int64_t> uses;  // of the first layer that has the weights
  for (const LayerInfo& layer : layers) {
    if (layer.weights_of >= 0) ++uses[layer.weights_of];
  }
  const auto count = std::ssize(uses);
  if (count == std::ssize(layers) || count == 0) return "";
  return fmt::format(
      "{} layers have the weights of {}: a head is one head, used in each of "
      "its layers",
      layers.size(), count);
}

// How heads are chosen; "" where all are always used.
std::string GateText(const ModelInfo& info) {
  if (info.gates == "hard_concrete") {
    return "hard concrete: one learned gate a head (--heads)";
  }
  if (info.gates == "mixture") {
    return fmt::format("mixture: {} heads a token, {} of them shared",
                       info.active_heads, info.shared_heads);
  }
  return "";
}

std::string ExpertsText(const ModelInfo& info) {
  const auto layers = std::ranges::count_if(info.layers, &LayerInfo::mixture);
  std::string text =
      fmt::format("{} of {}{}, {} a token, in {} of {} layers (--experts)",
                  info.experts, info.expert_width, info.gated ? ", gated" : "",
                  info.active_experts, layers, info.layers.size());
  if (info.shared_expert_width > 0) {
    text +=
        fmt::format("; one of {} for every token", info.shared_expert_width);
  }
  return text;
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

Reading ReadingOf(const std::string& folder) {
  std::optional<TextFrame> frame;
  try {
    frame = ReadTextFrame(folder);
  } catch (const Error& error) {  // what the model is can still be told
    return {error.what(), nullptr};
  }
  if (!frame) return {"no tokenizer: ids only", nullptr};
  const std::vector<std::string>& before = frame->before_pieces;
  const std::vector<std::string>& after = frame->after_pieces;
  Reading reading;
  reading.in_words = before.empty()
                         ? fmt::format("begin with no token ({})", frame->why)
                         : fmt::format("begin with {} ({})",
                                       fmt::join(before, " "), frame->why);
  if (!after.empty()) {
    reading.in_words += fmt::format(", end with {}", fmt::join(after, " "));
  }
  reading.json = {{"begin", before},
                  {"begin_ids", frame->before},
                  {"why", frame->why},
                  {"end", after},
                  {"end_ids", frame->after}};
  return reading;
}

void PrintShape(const ModelInfo& c, const Reading& reading, int width) {
  const char* kind = c.encoder_decoder ? "encoder–decoder"
                     : c.causal        ? "decoder, causal"
                                       : "encoder";
  std::string text =
      Wrap(fmt::format("{} ({}; {}), width {}, {}", c.model_type, kind,
                       c.pre_norm ? "pre-norm" : "post-norm", c.width,
                       PositionText(c)),
           width);
  const auto add = [&](const char* name, const std::string& what) {
    text += Fact(name, what, width);
  };
  add("layers × heads",
      fmt::format("{}{}, head_dim {}", HeadCounts(c.layers, &LayerInfo::heads),
                  c.encoder_decoder ? " (encoder)" : "", c.head_dim));
  if (c.encoder_decoder) {
    add("decoder",
        fmt::format("{} self, {} cross, head_dim {}",
                    HeadCounts(c.decoder_layers, &LayerInfo::heads),
                    HeadCounts(c.decoder_layers, &LayerInfo::cross_heads),
                    c.decoder_layers[0].head_dim));
  }
  add("key/value heads", HeadCounts(c.layers, &LayerInfo::kv_heads));
  if (const std::string shared = SharedText(c.layers); !shared.empty()) {
    add("shared weights", shared);
  }
  if (c.embedding_width != c.width) {
    add("embeddings", fmt::format("{} wide, projected", c.embedding_width));
  }
  if (const std::string gates = GateText(c); !gates.empty()) {
    add("gates", gates);
  }
  if (c.span_ramp > 0) {
    add("spans", fmt::format("learned, a ramp of {} (--heads)", c.span_ramp));
  }
  add("feed-forward",
      fmt::format("{}{}", c.feed_forward, c.gated ? ", gated" : ""));
  if (c.experts > 0) add("experts", ExpertsText(c));
  add("vocabulary", std::to_string(c.vocabulary));
  add("context", std::to_string(c.context));
  add("texts", reading.in_words);
  WriteStdout("{}", text);
}

// Powers of four from 128 on, and the model's own context, at which it ends.
std::vector<int64_t> RunLengths(const ModelInfo& info) {
  constexpr int64_t kMost = 131072;
  const int64_t most = info.context > 0 ? info.context : kMost;
  std::vector<int64_t> lengths;
  for (int64_t n = 128; n < most && n <= kMost; n *= 4) lengths.push_back(n);
  if (most <= kMost) lengths.push_back(most);
  return lengths;
}

void PrintCosts(const ModelInfo& s, const Console& console) {
  std::string types;
  for (const auto& [type, count] : s.types) {
    types += (types.empty() ? "" : ", ") + type;
  }
  WriteStdout(
      "{}\n",
      Fact("parameters",
           fmt::format("{} ({} in embeddings), {}B as {}",
                       Short(static_cast<double>(s.parameters)),
                       Short(static_cast<double>(s.embedding_parameters)),
                       Short(static_cast<double>(s.file_bytes)), types),
           console.width));
  if (!s.unread.empty()) {
    WriteStdout("{}\n",
                Fact("not read",
                     fmt::format("{} of {} tensors: {}", s.unread.size(),
                                 s.tensors, fmt::join(s.unread, ", ")),
                     console.width));
  }
  StudyTable table;
  table.columns = {"tokens", "FLOP", "attention", "weights",
                   "cache",  "run",  "all maps"};
  for (const int64_t n : RunLengths(s)) {
    const TextCost cost = CostOf(s, n);
    table.rows.push_back(
        {std::to_string(n), Short(cost.flops()),
         fmt::format("{:.0f} %", 100 * cost.attention_flops / cost.flops()),
         Short(4 * static_cast<double>(s.parameters)) + "B",
         Short(cost.cache_bytes) + "B", Short(cost.stream_bytes) + "B",
         Short(cost.maps_bytes) + "B"});
  }
  WriteDrawn("{}{}", DrawTable(table, console),
             Wrap("weights: f32, as run; cache: keys and values; run: "
                  "activations of one layer; all maps: what keeping every "
                  "attention matrix would take",
                  console.width));
}

Json HeadsJson(std::span<const HeadSize> sizes) {
  Json heads = Json::array();
  for (const HeadSize& size : sizes) {
    heads.push_back({{"layer", size.head.layer},
                     {"head", size.head.head},
                     {"kind", Name(size.head.kind)},
                     {"qk_norm", size.qk_norm},
                     {"ov_norm", size.ov_norm}});
    if (size.query_norms) heads.back()["query_norms"] = true;
    if (size.gate) heads.back()["gate"] = *size.gate;
    if (size.span) heads.back()["span"] = *size.span;
  }
  return heads;
}

void PrintHeads(const ModelInfo& info, std::span<const HeadSize> sizes,
                const Console& console) {
  StudyTable table;
  table.columns = {"head", "‖W_QK‖", "‖W_OV‖"};
  if (info.gates == "hard_concrete") table.columns.emplace_back("gate");
  if (info.span_ramp > 0) table.columns.emplace_back("span");
  bool query_norms = false;
  for (const HeadSize& size : sizes) {
    query_norms |= size.query_norms;
    std::vector<std::string> row = {ToString(size.head),
                                    fmt::format("{:.3f}", size.qk_norm),
                                    fmt::format("{:.3f}", size.ov_norm)};
    if (size.gate) row.push_back(fmt::format("{:.2f}", *size.gate));
    if (size.span) row.push_back(fmt::format("{:.1f}", *size.span));
    row.resize(table.columns.size());
    table.rows.push_back(std::move(row));
  }
  WriteDrawn("\n{}", DrawTable(table, console));
  if (!query_norms) return;
  WriteStdout(
      "{}", Wrap("Queries and keys are normed head by head: the norms' gains "
                 "are in W_QK, their division by the root mean square is not, "
                 "and takes the scale of W_Q and W_K out of the scores.",
                 console.width));
}

Json ExpertsJson(std::span<const ExpertSize> sizes) {
  const auto matrix = [](const MatrixSize& of) {
    return Json{
        {"outputs", of.outputs}, {"inputs", of.inputs}, {"rank", of.rank}};
  };
  Json experts = Json::array();
  for (const ExpertSize& size : sizes) {
    experts.push_back({{"layer", size.layer},
                       {"expert", size.expert},
                       {"up", matrix(size.up)},
                       {"down", matrix(size.down)}});
    if (size.gate.outputs > 0) experts.back()["gate"] = matrix(size.gate);
  }
  return experts;
}

void PrintExperts(std::span<const ExpertSize> sizes, const Console& console) {
  if (sizes.empty()) {
    WriteStdout("\nno layer is a mixture of experts\n");
    return;
  }
  StudyTable table;
  table.columns = {"expert", "gate", "up", "down"};
  const auto text = [](const MatrixSize& of) {
    return of.outputs == 0 ? std::string("–")
                           : fmt::format("{} × {}, rank {}", of.outputs,
                                         of.inputs, of.rank);
  };
  for (const ExpertSize& size : sizes) {
    table.rows.push_back({size.expert < 0
                              ? fmt::format("{}.shared", size.layer)
                              : fmt::format("{}.{}", size.layer, size.expert),
                          text(size.gate), text(size.up), text(size.down)});
  }
  WriteDrawn("\n{}", DrawTable(table, console));
}

Json ToJson(const ModelInfo& c) {
  auto layers = [](const std::vector<LayerInfo>& shapes) {
    Json list = Json::array();
    for (const LayerInfo& shape : shapes) {
      list.push_back({{"heads", shape.heads},
                      {"kv_heads", shape.kv_heads},
                      {"cross_heads", shape.cross_heads},
                      {"window", shape.window},
                      {"mixture", shape.mixture},
                      {"weights_of", shape.weights_of}});
    }
    return list;
  };
  Json costs = Json::array();
  for (const int64_t n : RunLengths(c)) {
    const TextCost cost = CostOf(c, n);
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
          {"embedding_width", c.embedding_width},
          {"head_dim", c.head_dim},
          {"feed_forward", c.feed_forward},
          {"experts", c.experts},
          {"active_experts", c.active_experts},
          {"expert_width", c.expert_width},
          {"shared_expert_width", c.shared_expert_width},
          {"vocabulary", c.vocabulary},
          {"context", c.context},
          {"causal", c.causal},
          {"gates", c.gates},
          {"shared_heads", c.shared_heads},
          {"active_heads", c.active_heads},
          {"span_ramp", c.span_ramp},
          {"layers", layers(c.layers)},
          {"decoder_layers", layers(c.decoder_layers)},
          {"tensors", c.tensors},
          {"unread", c.unread},
          {"parameters", c.parameters},
          {"embedding_parameters", c.embedding_parameters},
          {"file_bytes", c.file_bytes},
          {"types", c.types},
          {"costs", costs}};
}

int Run(const Options& options) {
  const ModelInfo info = ReadModelInfo(options.model);
  const Reading reading = ReadingOf(options.model);
  const auto sizes = [&] {
    Transformer model(options.model);
    return SizesOfHeads(model);
  };
  const auto experts = [&] {
    Transformer model(options.model);
    return SizesOfExperts(model);
  };
  if (options.json) {
    Json json = ToJson(info);
    json["texts"] = reading.json;
    if (options.heads) json["heads"] = HeadsJson(sizes());
    if (options.experts) json["expert_sizes"] = ExpertsJson(experts());
    WriteJson(json.dump(2));
    return kSucceeded;
  }
  const Console console = StdoutConsole();
  PrintShape(info, reading, console.width);
  PrintCosts(info, console);
  if (options.heads) PrintHeads(info, sizes(), console);
  if (options.experts) PrintExperts(experts(), console);
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model,
              "A folder with config.json and model.safetensors")
      .Required();
  line.Flag("--heads", options->heads,
            "Also the size of each head's matching and content matrices");
  line.Flag("--experts", options->experts,
            "Also the shape and the rank of each expert's matrices");
  line.Flag("--json", options->json, "Print JSON");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace info_command

const Command kInfoCommand = {
    .name = "info",
    .group = Group::kTools,
    .summary = "Shapes, parameters, heads of a model, and the cost of a run",
    .examples =
        "  headwise info models/minilm-l6\n"
        "  headwise info models/minilm-l6 --heads\n"
        "  headwise info models/minilm-l6 --json",
    .setup = info_command::Setup};

}  // namespace headwise
