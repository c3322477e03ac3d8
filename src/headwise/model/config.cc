// Reading config.json. Door: config.h.
#include "headwise/model/config.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "headwise/base/fields.h"
#include "headwise/error.h"

namespace headwise {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 40;

// The "headwise" object of config.json.
struct GateFields {
  std::string gates = "open";
  int64_t shared_heads = 0;
  int64_t active_heads = 0;
  int64_t span_ramp = 0;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("gates", self.gates, "open, hard_concrete or mixture");
    visit("shared_heads", self.shared_heads,
          "mixture: the first heads, which every token uses");
    visit("active_heads", self.active_heads,
          "mixture: heads a token uses, shared ones included");
    visit("span_ramp", self.span_ramp,
          "positions over which a learned span ends; 0: no spans");
  }
};

// The fewest heads of an attention call; layers without heads make none.
int64_t FewestHeads(const ModelConfig& config) {
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (const auto* layers : {&config.layers, &config.decoder}) {
    for (const LayerShape& layer : *layers) {
      for (const int64_t heads : {layer.heads, layer.cross_heads}) {
        if (heads > 0) fewest = std::min(fewest, heads);
      }
    }
  }
  return fewest;
}

}  // namespace

std::vector<int64_t> LayersSharing(const ModelConfig& config, int64_t layer) {
  const int64_t of = config.layers[layer].weights_of;
  if (of < 0) return {layer};
  std::vector<int64_t> layers;
  for (int64_t i = 0; i < std::ssize(config.layers); ++i) {
    if (config.layers[i].weights_of == of) layers.push_back(i);
  }
  return layers;
}

AttentionMask MaskOf(const ModelConfig& config, const LayerShape& layer) {
  if (!config.causal) {
    if (layer.window == 0) return AttentionMask::None();
    return {.before = layer.window / 2, .after = layer.window / 2};
  }
  return layer.window > 0 ? AttentionMask::SlidingWindow(layer.window)
                          : AttentionMask::Causal();
}

ConfigReader::ConfigReader(const Json& json, std::string file)
    : root_(json, std::move(file)) {
  if (!json.is_object()) root_.Fail("an object");
}

bool ConfigReader::Has(const char* key) const {
  return root_.Find(key).has_value();
}

void ConfigReader::Fail(const std::string& key, const std::string& expected,
                        const std::string& hint) const {
  const auto found = json().find(key);
  throw Error(ErrorCode::kCorrupt,
              {file(), "\"" + key + "\" to be " + expected,
               found == json().end() ? "nothing" : found->dump(), hint});
}

void ConfigReader::Require(const char* key, const Json& only,
                           const std::string& hint) const {
  const auto found = json().find(key);
  if (found == json().end() || found->is_null() || *found == only) return;
  throw Error(ErrorCode::kUnsupported,
              {file(),
               std::string("\"") + key + "\" to be " +
                   (only.is_null() ? "absent" : only.dump()),
               found->dump(), hint});
}

int64_t ConfigReader::Size(std::initializer_list<const char*> keys) const {
  const int64_t size = Size(keys, 0);
  if (size == 0) Fail(*keys.begin(), "a size of at least 1");
  return size;
}

int64_t ConfigReader::Size(std::initializer_list<const char*> keys,
                           int64_t other) const {
  for (const char* key : keys) {
    const auto value = root_.Find(key);
    if (value) return value->Int(1, kMostSize - 1);
  }
  return other;
}

int64_t ConfigReader::Count(const char* key, int64_t other) const {
  return root_.Int(key, 0, kMostSize - 1, other);
}

double ConfigReader::Number(const char* key, double other) const {
  const auto value = root_.Find(key);
  return value ? value->Number() : other;
}

float ConfigReader::Epsilon(const char* key, double other) const {
  const double value = Number(key, other);
  if (!(value >= 0 && value <= 1)) Fail(key, "a number from 0 to 1");
  return static_cast<float>(value);
}

bool ConfigReader::Flag(const char* key, bool other) const {
  return root_.Bool(key, other);
}

std::string ConfigReader::Text(const char* key,
                               const std::string& other) const {
  return root_.String(key, other);
}

std::vector<int64_t> ConfigReader::Ids(const char* key) const {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto value = root_.Find(key);
  if (!value) return {};
  if (!value->value().is_array()) return {value->Int(-kMost, kMost)};
  std::vector<int64_t> ids;
  for (const JsonCursor& id : value->Items()) {
    ids.push_back(id.Int(-kMost, kMost));
  }
  return ids;
}

void RequireKnownSettings(const ConfigReader& config,
                          const char* quantization) {
  config.Require("add_cross_attention", false,
                 "layers that read another model's states are not run");
  const char* key = "quantization_config";
  if (quantization != nullptr && config.Has(key)) {
    const Json& found = config.json()[key];
    if (found.is_object() && found.contains("quant_method") &&
        found["quant_method"] == quantization) {
      return;
    }
  }
  config.Require(key, nullptr, "store the weights as f32, bf16 or f16");
}

Activation ReadActivation(const ConfigReader& config, const char* key,
                          const char* other) {
  return ActivationNamed(config, key, config.Text(key, other));
}

Activation ActivationNamed(const ConfigReader& config, const char* key,
                           const std::string& name) {
  if (name == "relu") return Activation::kRelu;
  if (name == "gelu" || name == "gelu_python") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" ||
      name == "gelu_fast") {
    return Activation::kGeluTanh;
  }
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "tanh") return Activation::kTanh;
  config.Fail(key, "one of relu, gelu, gelu_new, silu, swish, tanh");
}

void ReadCounts(const ConfigReader& config, const char* key,
                int64_t LayerShape::*member, std::vector<LayerShape>& layers) {
  if (!config.Has(key)) return;
  const std::vector<int64_t> counts = config.Ids(key);
  if (counts.size() != layers.size()) config.Fail(key, "one count a layer");
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0) config.Fail(key, "counts of heads");
    layers[i].*member = counts[i];
  }
}

void ReadBiasColumns(const ConfigReader& config, const char* key,
                     int64_t columns, std::vector<LayerShape>& layers) {
  const auto pruned = [&](const LayerShape& layer) {
    return layer.heads != columns;
  };
  if (!config.Has(key)) {
    if (std::ranges::none_of(layers, pruned)) return;
    config.Fail(key,
                "there, as layers have fewer heads than the table columns");
  }
  const JsonCursor root(config.json(), config.file());
  const std::vector<JsonCursor> lists = root[key].Items();
  if (lists.size() != layers.size()) config.Fail(key, "one list a layer");
  for (size_t i = 0; i < lists.size(); ++i) {
    for (const JsonCursor& column : lists[i].Items()) {
      layers[i].bias_columns.push_back(
          static_cast<int32_t>(column.Int(0, columns - 1)));
    }
    if (std::ssize(layers[i].bias_columns) == layers[i].heads) continue;
    config.Fail(key, "one column a head of each layer");
  }
}

RelativeBuckets ReadBuckets(const ConfigReader& config, const char* count,
                            const char* max_distance) {
  const RelativeBuckets buckets = {
      .count = config.Size({count}, 32),
      .max_distance = config.Size({max_distance}, 128)};
  if (buckets.count < 4 || buckets.count > kMostRelativeDistance) {
    config.Fail(count, "4 buckets or more, and at most " +
                           std::to_string(kMostRelativeDistance));
  }
  if (!IsSound(buckets) || buckets.max_distance <= buckets.count / 2) {
    config.Fail(max_distance, "more than half of the buckets, and at most " +
                                  std::to_string(kMostRelativeDistance));
  }
  return buckets;
}

std::vector<LayerShape> ReadLayers(const ConfigReader& config, int64_t layers,
                                   int64_t heads, int64_t kv_heads) {
  if (layers > kMostLayers) {
    throw Error(ErrorCode::kCorrupt,
                {config.file(), "at most 4096 layers", std::to_string(layers),
                 "is it the configuration of this model?"});
  }
  std::vector<LayerShape> shapes(layers,
                                 {.heads = heads, .kv_heads = kv_heads});
  ReadCounts(config, "heads_per_layer", &LayerShape::heads, shapes);
  ReadCounts(config, "kv_heads_per_layer", &LayerShape::kv_heads, shapes);
  if (config.Has("heads_per_layer") && !config.Has("kv_heads_per_layer") &&
      heads == kv_heads) {
    for (LayerShape& shape : shapes) shape.kv_heads = shape.heads;
  }
  if (config.Has("pruned_heads")) {
    const Json& pruned = config.json()["pruned_heads"];
    if (!pruned.is_object()) config.Fail("pruned_heads", "layer: [heads, …]");
    if (heads != kv_heads) {
      config.Fail("pruned_heads", "absent from a model with grouped queries",
                  "heads_per_layer and kv_heads_per_layer say it there");
    }
    for (const auto& [key, removed] : pruned.items()) {
      size_t used = 0;
      int64_t layer = -1;
      try {
        layer = std::stoll(key, &used);
      } catch (const std::exception&) {
        layer = -1;
      }
      if (layer < 0 || layer >= layers || used != key.size() ||
          !removed.is_array() ||
          static_cast<int64_t>(removed.size()) > shapes[layer].heads) {
        config.Fail("pruned_heads", "layer: [heads, …] within the model");
      }
      shapes[layer].heads -= static_cast<int64_t>(removed.size());
      shapes[layer].kv_heads -= static_cast<int64_t>(removed.size());
    }
  }
  for (const LayerShape& shape : shapes) {
    if (shape.kv_heads == 0 ? shape.heads != 0
                            : shape.heads % shape.kv_heads != 0) {
      config.Fail("kv_heads_per_layer", "divisors of each layer's heads");
    }
  }
  return shapes;
}

void ReadEnds(const ConfigReader& reader, ModelConfig& config) {
  const std::vector<int64_t> bos = reader.Ids("bos_token_id");
  config.bos = bos.empty() ? -1 : bos[0];
  config.eos = reader.Ids("eos_token_id");
}

const char* Name(GateKind kind) {
  switch (kind) {
    case GateKind::kOpen:
      return "open";
    case GateKind::kHardConcrete:
      return "hard_concrete";
    case GateKind::kMixture:
      return "mixture";
  }
  return "";
}

void ReadHeadChoice(const ConfigReader& reader, ModelConfig& config) {
  if (!reader.Has("headwise")) return;
  const Json& given = reader.json()["headwise"];
  if (!given.is_object()) reader.Fail("headwise", "an object");
  GateFields fields;
  FieldsFromJson(given, fields, reader.file() + ": headwise");
  bool known = false;
  for (const GateKind kind :
       {GateKind::kOpen, GateKind::kHardConcrete, GateKind::kMixture}) {
    if (fields.gates != Name(kind)) continue;
    config.gates.kind = kind;
    known = true;
  }
  if (!known) {
    reader.Fail("headwise", "gates open, hard_concrete or mixture");
  }
  if (fields.span_ramp < 0 || fields.span_ramp > config.context) {
    reader.Fail("headwise", "span_ramp from 0 to the positions of the model");
  }
  if (fields.span_ramp > 0) config.spans = {fields.span_ramp, config.context};
  if (config.gates.kind != GateKind::kMixture) return;
  const int64_t heads = FewestHeads(config);
  config.gates.shared = fields.shared_heads;
  config.gates.active = fields.active_heads;
  if (fields.shared_heads < 0 || fields.active_heads <= fields.shared_heads ||
      fields.active_heads > heads) {
    reader.Fail("headwise", "active_heads above shared_heads and at most the " +
                                std::to_string(heads) + " heads of a layer");
  }
}

}  // namespace headwise
