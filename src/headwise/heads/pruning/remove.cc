// Taking heads out of weights and configuration. Door: remove.h.
#include "headwise/heads/pruning/remove.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/heads/pruning/layer_output.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/head_slices.h"
#include "headwise/tensor/places.h"

namespace headwise {
namespace {

using Places = std::vector<int64_t>;

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

// What leaves stored tensors: places along an axis, of some tensors of a
// checkpoint.
class Leaving {
 public:
  void Add(std::span<const StoredSlice> slices) {
    for (const StoredSlice& slice : slices) {
      Stored& tensor = tensors_[slice.of->name];
      tensor.stored = slice.of->stored();
      tensor.axis = slice.axis;
      for (int64_t i = 0; i < slice.count; ++i) {
        tensor.places.insert(slice.first + i);
      }
    }
  }

  // The tensors without them.
  void Apply(ChangedTensors& changed) const {
    for (const auto& [name, tensor] : tensors_) {
      Places kept;
      for (int64_t i = 0; i < tensor.stored.shape[tensor.axis]; ++i) {
        if (!tensor.places.contains(i)) kept.push_back(i);
      }
      changed[name] = Select(tensor.stored, tensor.axis, kept, name);
    }
  }

 private:
  struct Stored {
    ConstTensorView stored;
    int axis = 0;
    std::set<int64_t> places;
  };
  std::map<std::string, Stored> tensors_;
};

void RemoveFrom(const AttentionLayer& layer, const std::set<int64_t>& removed,
                ChangedTensors& changed) {
  if (!layer.has_own_keys() || layer.config().shares_keys) {
    throw Error(ErrorCode::kUnsupported,
                {layer.site().name, "a layer with keys of its own to prune",
                 layer.Special(), "other layers read the same groups"});
  }
  const AttentionWeights& weights = layer.weights();
  for (const HeadNorms* norms : {&weights.query_norm, &weights.key_norm}) {
    if (!*norms || norms->IsAlike(layer.config().head_dim)) continue;
    const bool each = norms->norms().size() > 1;
    throw Error(ErrorCode::kUnsupported,
                {layer.site().name,
                 "heads whose queries and keys have a norm of their own, the "
                 "same for all",
                 each ? "a norm for each head" : "one norm of all heads",
                 each ? "the heads that stay would read others' norms"
                      : "the heads that stay would be scaled otherwise"});
  }
  Leaving leaving;
  for (const int64_t head : removed) leaving.Add(SlicesOfHead(layer, head));
  const std::vector<int64_t> groups = LeftOf(layer.config(), removed).groups;
  for (int64_t group = 0; group < layer.config().kv_heads; ++group) {
    if (std::ranges::binary_search(groups, group)) continue;
    leaving.Add(SlicesOfGroup(layer, group));
  }
  leaving.Apply(changed);
}

// Of one vector the vector itself.
Tensor MeanOf(const std::vector<Tensor>& vectors) {
  Tensor mean(DType::kF32, {vectors[0].size()});
  const auto count = static_cast<float>(vectors.size());
  for (int64_t i = 0; i < mean.size(); ++i) {
    float sum = 0;
    for (const Tensor& one : vectors) sum += one.As<float>()[i];
    mean.As<float>()[i] = sum / count;
  }
  return mean;
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
  const auto columns = [&](AttentionKind kind, const char* key) {
    Json lists = Json::array();
    bool biased = false;
    for (const AttentionLayer* layer : AttentionLayers(model, kind)) {
      const auto found = sites.find({kind, std::ssize(lists)});
      const std::span<const int32_t> columns_of = layer->bias_columns();
      Json kept = Json::array();
      for (const int64_t head :
           LeftOf(layer->config(),
                  found == sites.end() ? std::set<int64_t>() : found->second)
               .heads) {
        if (!columns_of.empty()) kept.push_back(columns_of[head]);
      }
      biased = biased || !columns_of.empty();
      lists.push_back(std::move(kept));
    }
    if (biased) config[key] = std::move(lists);
  };
  columns(AttentionKind::kSelf, "bias_columns_per_layer");
  columns(AttentionKind::kDecoder, "decoder_bias_columns_per_layer");
  config.erase("pruned_heads");  // the counts say it
  return config;
}

void FoldMeans(const Model& model, std::span<const HeadRef> removed,
               const HeadOutputs& means, ChangedTensors& changed) {
  Context context({.threads = 1, .implementations = ""});
  // Of each bias what it is to be in the layers that have it.
  std::map<std::string, std::vector<Tensor>> biases;
  for (const auto& [site, heads] : BySite(removed)) {
    const AttentionLayer& layer =
        *AttentionLayers(model, site.first)[site.second];
    const auto found = means.find(layer.site().name);
    if (found == means.end()) continue;
    if (layer.gates_channels()) {
      throw Error(ErrorCode::kUnsupported,
                  {layer.site().name, "heads whose mean is what W_O reads",
                   "an output gate of channels behind them",
                   "prune with --repair none"});
    }
    // One of the host's own: the model's may have run on a device.
    const Linear output = layer.weights().output.Copied();
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
    biases[BiasName(output)].push_back(std::move(bias));
  }
  for (auto& [name, wanted] : biases) changed[name] = MeanOf(wanted);
}

}  // namespace headwise
