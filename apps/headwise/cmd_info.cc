// headwise info: what a model is, how many heads each layer has, what a run
// costs, and (--heads) what each head's matrices look like.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "commands.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/summary.h"
#include "headwise/nn/head_weights.h"

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

void PrintShape(const ModelConfig& c) {
  const char* kind = c.encoder_decoder() ? "encoder–decoder"
                     : c.causal          ? "decoder, causal"
                                         : "encoder";
  fmt::print("{} ({}; {}), width {}, {}\n", c.model_type, kind,
             c.norm_place == NormPlace::kPre ? "pre-norm" : "post-norm",
             c.width, PositionText(c));
  fmt::print("  layers × heads   {}{}, head_dim {}\n",
             HeadCounts(c.layers, &LayerShape::heads),
             c.encoder_decoder() ? " (encoder)" : "", c.head_dim);
  if (c.encoder_decoder()) {
    fmt::print("  decoder          {} self, {} cross\n",
               HeadCounts(c.decoder, &LayerShape::heads),
               HeadCounts(c.decoder, &LayerShape::cross_heads));
  }
  fmt::print("  key/value heads  {}\n",
             HeadCounts(c.layers, &LayerShape::kv_heads));
  if (const std::string gates = GateText(c.gates); !gates.empty()) {
    fmt::print("  gates            {}\n", gates);
  }
  if (c.spans.ramp > 0) {
    fmt::print("  spans            learned, a ramp of {} (--heads)\n",
               c.spans.ramp);
  }
  fmt::print("  feed-forward     {}{}\n", c.hidden, c.gated ? ", gated" : "");
  fmt::print("  vocabulary       {}\n  context          {}\n", c.vocabulary,
             c.context);
}

void PrintCosts(const ModelSummary& s) {
  std::string types;
  for (const auto& [type, count] : s.types) {
    types += (types.empty() ? "" : ", ") + type;
  }
  fmt::print("  parameters       {} ({} in embeddings), {}B as {}\n\n",
             Short(static_cast<double>(s.parameters)),
             Short(static_cast<double>(s.embedding_parameters)),
             Short(static_cast<double>(s.file_bytes)), types);
  fmt::print("{:>9} {:>9} {:>10} {:>9} {:>9} {:>9} {:>9}\n", "tokens", "FLOP",
             "attention", "weights", "cache", "run", "all maps");
  for (int64_t n = 128; n <= 131072; n *= 4) {
    if (n > s.config.context && n > 128) break;
    const RunCost cost = CostOf(s.config, n);
    fmt::print("{:>9} {:>9} {:>9.0f}% {:>8}B {:>8}B {:>8}B {:>8}B\n", n,
               Short(cost.flops()), 100 * cost.attention_flops / cost.flops(),
               Short(4 * static_cast<double>(s.parameters)),
               Short(cost.cache_bytes), Short(cost.stream_bytes),
               Short(cost.maps_bytes));
  }
  fmt::print(
      "weights: f32, as run; cache: keys and values; run: activations of one\n"
      "layer; all maps: what keeping every attention matrix would take\n");
}

nlohmann::ordered_json HeadsJson(const std::string& folder) {
  const auto model = OpenModel(folder);
  Context context;
  nlohmann::ordered_json heads = nlohmann::ordered_json::array();
  for (const HeadRef& head : AllHeads(*model)) {
    const AttentionLayer& layer =
        *AttentionLayers(*model, head.kind)[head.layer];
    const HeadWeights weights = WeightsOfHead(layer, head.head);
    heads.push_back({{"layer", head.layer},
                     {"head", head.head},
                     {"kind", Name(head.kind)},
                     {"qk_norm", QkNorm(context, weights)},
                     {"ov_norm", OvNorm(context, weights)}});
    if (const Parameter& gate = layer.weights().gates.weights().log_alpha) {
      heads.back()["gate"] = ConcreteGate(ToF32(gate).As<float>()[head.head]);
    }
    if (const Parameter& span = layer.weights().spans.spans()) {
      heads.back()["span"] =
          static_cast<double>(layer.weights().spans.config().limit) *
          std::clamp(ToF32(span).As<float>()[head.head], 0.0f, 1.0f);
    }
  }
  return heads;
}

nlohmann::ordered_json ToJson(const ModelSummary& s) {
  const ModelConfig& c = s.config;
  auto layers = [](const std::vector<LayerShape>& shapes) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const LayerShape& shape : shapes) {
      list.push_back({{"heads", shape.heads},
                      {"kv_heads", shape.kv_heads},
                      {"cross_heads", shape.cross_heads},
                      {"window", shape.window}});
    }
    return list;
  };
  nlohmann::ordered_json costs = nlohmann::ordered_json::array();
  for (int64_t n = 128; n <= 131072; n *= 4) {
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
  const ModelSummary summary = Summarise(options.model);
  if (options.json) {
    nlohmann::ordered_json json = ToJson(summary);
    if (options.heads) json["heads"] = HeadsJson(options.model);
    fmt::print("{}\n", json.dump(2));
    return kSucceeded;
  }
  PrintShape(summary.config);
  PrintCosts(summary);
  if (!options.heads) return kSucceeded;
  const bool gated = summary.config.gates.kind == GateKind::kHardConcrete;
  fmt::print("\n{:>12} {:>10} {:>10}{}{}\n", "head", "‖W_QK‖", "‖W_OV‖",
             gated ? "   gate" : "",
             summary.config.spans.ramp > 0 ? "   span" : "");
  for (const auto& head : HeadsJson(options.model)) {
    const std::string kind = head["kind"];
    const std::string name =
        fmt::format("{}{}.{}", kind == "self" ? "" : kind + ":",
                    head["layer"].get<int64_t>(), head["head"].get<int64_t>());
    std::string more;
    if (head.contains("gate")) {
      more += fmt::format(" {:>6.2f}", head["gate"].get<double>());
    }
    if (head.contains("span")) {
      more += fmt::format(" {:>6.1f}", head["span"].get<double>());
    }
    fmt::print("{:>12} {:>8.3f} {:>8.3f}{}\n", name,
               head["qk_norm"].get<double>(), head["ov_norm"].get<double>(),
               more);
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
