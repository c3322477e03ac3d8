// Taking heads out of weights and configuration. Door: remove.h.
#include "headwise/heads/pruning/remove.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/heads/pruning/layer_output.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/tensor/places.h"

namespace headwise {
namespace {

using Places = std::vector<int64_t>;

// Appends the places of the blocks that stay, of `width` places each.
void AddBlocks(int64_t first, int64_t width, const Places& blocks,
               Places& places) {
  for (const int64_t block : blocks) {
    for (int64_t i = 0; i < width; ++i) {
      places.push_back(first + block * width + i);
    }
  }
}

// What is left of one attention layer.
struct Left {
  Places heads;
  Places groups;
};

Left LeftOf(const AttentionLayerConfig& config,
            const std::set<int64_t>& removed) {
  Left left;
  for (int64_t head = 0; head < config.heads; ++head) {
    if (removed.contains(head)) continue;
    left.heads.push_back(head);
    const int64_t group = head / (config.heads / config.kv_heads);
    if (left.groups.empty() || left.groups.back() != group) {
      left.groups.push_back(group);
    }
  }
  return left;
}

// The places of `axis` that stay, where there is such a parameter.
void Take(const Parameter& parameter, int axis, const Places& kept,
          ChangedTensors& changed) {
  if (!parameter) return;
  changed[parameter.name] = Select(parameter.value, axis, kept, parameter.name);
}

// Columns of a product's output that stay, part by part.
void SelectOutputs(const Linear& linear, const Places& kept,
                   ChangedTensors& changed) {
  const int axis = linear.layout() == WeightLayout::kOutIn ? 0 : 1;
  int64_t first = 0;
  for (const Linear::Part& part : linear.parts()) {
    const int64_t outs = part.weight.value.shape[axis];
    Places mine;
    for (const int64_t place : kept) {
      if (place >= first && place < first + outs) mine.push_back(place - first);
    }
    Take(part.weight, axis, mine, changed);
    Take(part.bias, 0, mine, changed);
    first += outs;
  }
}

void SelectInputs(const Linear& linear, const Places& kept,
                  ChangedTensors& changed) {
  const int axis = linear.layout() == WeightLayout::kOutIn ? 1 : 0;
  for (const Linear::Part& part : linear.parts()) {
    Take(part.weight, axis, kept, changed);
  }
}

void RemoveFrom(const AttentionLayer& layer, const std::set<int64_t>& removed,
                ChangedTensors& changed) {
  const AttentionLayerConfig& config = layer.config();
  const AttentionWeights& weights = layer.weights();
  const Left left = LeftOf(config, removed);
  const int64_t dim = config.head_dim, value = layer.value_dim();
  Places queries, keys;
  AddBlocks(0, dim, left.heads, queries);
  // Keys and values stand behind the queries, or in a product of their own.
  const int64_t first = layer.cross() ? 0 : config.heads * dim;
  AddBlocks(first, dim, left.groups, keys);
  AddBlocks(first + config.kv_heads * dim, value, left.groups, keys);
  if (layer.cross()) {
    SelectOutputs(weights.q, queries, changed);
    SelectOutputs(weights.kv, keys, changed);
  } else {
    queries.insert(queries.end(), keys.begin(), keys.end());
    SelectOutputs(weights.qkv, queries, changed);
  }
  Places inputs;
  AddBlocks(0, value, left.heads, inputs);
  SelectInputs(weights.output, inputs, changed);
  for (const Parameter* own :
       {&weights.gates.weights().log_alpha, &weights.spans.spans()}) {
    Take(*own, 0, left.heads, changed);
  }
}

using Site = std::pair<AttentionKind, int64_t>;

std::map<Site, std::set<int64_t>> BySite(std::span<const HeadRef> removed) {
  std::map<Site, std::set<int64_t>> sites;
  for (const HeadRef& head : removed) {
    sites[{head.kind, head.layer}].insert(head.head);
  }
  return sites;
}

}  // namespace

ChangedTensors RemoveHeads(const Model& model,
                           std::span<const HeadRef> removed) {
  ChangedTensors changed;
  for (const auto& [site, heads] : BySite(removed)) {
    RemoveFrom(*AttentionLayers(model, site.first)[site.second], heads,
               changed);
  }
  return changed;
}

Json ConfigWithout(Json config, const Model& model,
                   std::span<const HeadRef> removed) {
  if (removed.empty()) return config;
  const auto sites = BySite(removed);
  const auto counts = [&](AttentionKind kind, const char* heads_key,
                          const char* groups_key) {
    const auto layers = AttentionLayers(model, kind);
    std::vector<int64_t> heads, groups;
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto found = sites.find({kind, static_cast<int64_t>(i)});
      const Left left =
          LeftOf(layers[i]->config(),
                 found == sites.end() ? std::set<int64_t>() : found->second);
      heads.push_back(std::ssize(left.heads));
      groups.push_back(std::ssize(left.groups));
    }
    if (heads.empty()) return;
    config[heads_key] = heads;
    if (groups_key != nullptr) config[groups_key] = groups;
  };
  counts(AttentionKind::kSelf, "heads_per_layer", "kv_heads_per_layer");
  counts(AttentionKind::kDecoder, "decoder_heads_per_layer", nullptr);
  counts(AttentionKind::kCross, "cross_heads_per_layer", nullptr);
  config.erase("pruned_heads");  // the counts say it
  return config;
}

void FoldMeans(const Model& model, std::span<const HeadRef> removed,
               const HeadOutputs& means, ChangedTensors& changed) {
  Context context({.threads = 1, .implementations = ""});
  for (const auto& [site, heads] : BySite(removed)) {
    const AttentionLayer& layer =
        *AttentionLayers(model, site.first)[site.second];
    const auto found = means.find(layer.site().name);
    if (found == means.end()) continue;
    // One of the host's own: the model's may have run on a device.
    const Linear output(layer.weights().output.parts(),
                        layer.weights().output.layout());
    // The removed heads' means, and nothing of those that stay.
    const int64_t value = layer.value_dim();
    Tensor x(DType::kF32, {1, layer.config().heads * value});
    Tensor y(DType::kF32, {1, output.out()});
    for (const int64_t head : heads) {
      std::memcpy(
          static_cast<float*>(x.view().data) + head * value,
          static_cast<const float*>(found->second.view().data) + head * value,
          value * sizeof(float));
    }
    output.Forward(context, x.view(), y.view());  // the old bias is in it
    Tensor bias(DType::kF32, {output.out()});
    std::memcpy(bias.view().data, y.view().data, bias.bytes());
    changed[BiasName(output)] = std::move(bias);
  }
}

}  // namespace headwise
