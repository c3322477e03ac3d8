// Heads of zeros in the place of those that left. Door: twin.h.
#include "headwise/export/twin.h"

#include <string>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/tensor/places.h"

namespace headwise {
namespace {

using Places = std::vector<int64_t>;

// One of queries, keys and values: where each column that is left goes, of how
// many.
struct Block {
  Places places;
  int64_t all = 0;
};

void SpreadOver(const Parameter& parameter, int axis, const Block& block,
                ChangedTensors& changed) {
  if (!parameter) return;
  changed[parameter.name] =
      Spread(parameter.value, axis, block.places, block.all, parameter.name);
}

// Heads of `width` columns each, head i at slots[i].
Block Columns(const Places& slots, int64_t width, int64_t heads) {
  Block block = {{}, heads * width};
  for (const int64_t slot : slots) {
    for (int64_t i = 0; i < width; ++i) {
      block.places.push_back(slot * width + i);
    }
  }
  return block;
}

Block Joined(const std::vector<Block>& blocks) {
  Block joined;
  for (const Block& block : blocks) {
    for (const int64_t place : block.places) {
      joined.places.push_back(joined.all + place);
    }
    joined.all += block.all;
  }
  return joined;
}

// blocks: of the product's output, one a part or all in one.
void SpreadOutputs(const Linear& linear, const std::vector<Block>& blocks,
                   ChangedTensors& changed) {
  const int axis = linear.layout() == WeightLayout::kOutIn ? 0 : 1;
  const auto& parts = linear.parts();
  for (size_t i = 0; i < parts.size(); ++i) {
    const Block block =
        parts.size() == blocks.size() ? blocks[i] : Joined(blocks);
    const Linear::Part& part = parts[i];
    SpreadOver(part.weight, axis, block, changed);
    SpreadOver(part.bias, 0, block, changed);
  }
}

void SpreadLayer(const AttentionLayer& layer, int64_t heads, int64_t groups,
                 ChangedTensors& changed) {
  const AttentionLayerConfig& config = layer.config();
  if (config.heads == heads && config.kv_heads == groups) return;
  const int64_t in_group =
      config.heads == 0 ? 0 : config.heads / config.kv_heads;
  const int64_t room = heads / groups;
  if (config.kv_heads > groups || in_group > room) {
    throw Error(ErrorCode::kUnsupported,
                {layer.site().name,
                 "at most " + std::to_string(heads) + " heads in " +
                     std::to_string(groups) + " groups, as config.json says",
                 std::to_string(config.heads) + " in " +
                     std::to_string(config.kv_heads),
                 ""});
  }
  Places query_slots, key_slots;
  for (int64_t head = 0; head < config.heads; ++head) {
    query_slots.push_back(head / in_group * room + head % in_group);
  }
  for (int64_t group = 0; group < config.kv_heads; ++group) {
    key_slots.push_back(group);
  }
  const AttentionWeights& weights = layer.weights();
  const int64_t dim = config.head_dim, value = layer.value_dim();
  const Block queries = Columns(query_slots, dim, heads);
  const Block keys = Columns(key_slots, dim, groups);
  const Block values = Columns(key_slots, value, groups);
  if (layer.cross()) {
    SpreadOutputs(weights.q, {queries}, changed);
    SpreadOutputs(weights.kv, {keys, values}, changed);
  } else {
    SpreadOutputs(weights.qkv, {queries, keys, values}, changed);
  }
  const int axis = weights.output.layout() == WeightLayout::kOutIn ? 1 : 0;
  const Linear::Part& part = weights.output.parts()[0];
  SpreadOver(part.weight, axis, Columns(query_slots, value, heads), changed);
}

}  // namespace

Json ConfigOfTwin(Json config) {
  for (const char* key :
       {"heads_per_layer", "kv_heads_per_layer", "decoder_heads_per_layer",
        "cross_heads_per_layer", "pruned_heads"}) {
    config.erase(key);
  }
  return config;
}

ChangedTensors SpreadHeads(const Model& model, const Json& config) {
  const ModelConfig dense = ReadConfig(ConfigOfTwin(config), "config.json");
  ChangedTensors changed;
  for (const AttentionKind kind :
       {AttentionKind::kSelf, AttentionKind::kDecoder, AttentionKind::kCross}) {
    const auto& shapes =
        kind == AttentionKind::kSelf ? dense.layers : dense.decoder;
    const auto layers = AttentionLayers(model, kind);
    for (size_t i = 0; i < layers.size(); ++i) {
      const bool cross = kind == AttentionKind::kCross;
      SpreadLayer(*layers[i], cross ? shapes[i].cross_heads : shapes[i].heads,
                  cross ? shapes[i].cross_heads : shapes[i].kv_heads, changed);
    }
  }
  return changed;
}

}  // namespace headwise
