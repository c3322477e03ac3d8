// Heads of zeros in the place of those that left. Door: twin.h.
#include "headwise/export/twin.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/head_ref.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/head_slices.h"
#include "headwise/tensor/places.h"

namespace headwise {
namespace {

using Places = std::vector<int64_t>;

// The tensors of a model in the shapes that another configuration has. Nobody
// reads their values.
class ShapesOf : public WeightSource {
 public:
  explicit ShapesOf(const WeightSource& source) : source_(source) {}

  std::string Describe() const override { return source_.Describe(); }
  ConstTensorView Find(const std::string& name) const override {
    return source_.Find(name);
  }
  std::vector<std::string> Names() const override { return source_.Names(); }
  ConstTensorView Provide(const std::string& name,
                          std::span<const int64_t> shape,
                          const Start& /*start*/) const override {
    const ConstTensorView there = source_.Find(name);
    if (!there || there.rank != static_cast<int>(shape.size())) return there;
    std::vector<int64_t> sizes(shape.begin(), shape.end());
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == kAny) sizes[i] = there.shape[i];
    }
    return {there.data, there.type, Shape(sizes), there.device};
  }

 private:
  const WeightSource& source_;
};

// Where what is left of stored tensors goes in those of the dense model.
class Spreading {
 public:
  // Slices of a head, in both models, in the same order.
  void Add(const std::vector<StoredSlice>& from,
           const std::vector<StoredSlice>& to) {
    for (size_t i = 0; i < from.size(); ++i) {
      Stored& tensor = Tensors(to[i], from[i].of->stored());
      for (int64_t place = 0; place < from[i].count; ++place) {
        tensor.places.at(from[i].first + place) = to[i].first + place;
      }
    }
  }
  // Tensors of which the layer may have nothing left.
  void AddEmpty(const std::vector<StoredSlice>& to, const WeightSource& all) {
    for (const StoredSlice& slice : to) {
      Tensors(slice, all.Find(slice.of->name));
    }
  }

  void Apply(ChangedTensors& changed) const {
    for (const auto& [name, tensor] : tensors_) {
      changed[name] =
          Spread(tensor.stored, tensor.axis, tensor.places, tensor.all, name);
    }
  }

 private:
  struct Stored {
    ConstTensorView stored;
    int axis = 0;
    int64_t all = 0;
    Places places;
  };

  Stored& Tensors(const StoredSlice& to, const ConstTensorView& stored) {
    const auto [found, is_new] = tensors_.try_emplace(to.of->name);
    Stored& tensor = found->second;
    if (is_new) {
      tensor.stored = stored;
      tensor.axis = to.axis;
      tensor.all = to.of->stored().shape[to.axis];
      tensor.places.resize(stored.shape[to.axis]);
    }
    return tensor;
  }

  std::map<std::string, Stored> tensors_;
};

void RequireFits(const AttentionLayer& layer, const AttentionLayer& dense) {
  const AttentionLayerConfig& left = layer.config();
  const int64_t heads = dense.config().heads, groups = dense.config().kv_heads;
  const int64_t in_group = left.heads == 0 ? 0 : left.heads / left.kv_heads;
  if (left.kv_heads <= groups && in_group <= heads / groups) return;
  throw Error(
      ErrorCode::kUnsupported,
      {layer.site().name,
       "at most " + std::to_string(heads) + " heads in " +
           std::to_string(groups) + " groups, as config.json says",
       std::to_string(left.heads) + " in " + std::to_string(left.kv_heads),
       ""});
}

// The head of a dense layer in whose place a head goes. Heads with a bias by
// distance stand where it has their column.
int64_t SlotOf(const AttentionLayer& layer, const AttentionLayer& dense,
               int64_t head) {
  if (!layer.bias_columns().empty()) {
    return layer.bias_columns()[head];
  }
  const int64_t in_group = layer.config().heads / layer.config().kv_heads;
  const int64_t room = dense.config().heads / dense.config().kv_heads;
  return head / in_group * room + head % in_group;
}

void SpreadLayer(const AttentionLayer& layer, const AttentionLayer& dense,
                 const WeightSource& all, ChangedTensors& changed) {
  const AttentionLayerConfig& left = layer.config();
  const AttentionLayerConfig& wanted = dense.config();
  if (left.heads == wanted.heads && left.kv_heads == wanted.kv_heads) return;
  RequireFits(layer, dense);
  Spreading spreading;
  spreading.AddEmpty(SlicesOfHead(dense, 0), all);
  spreading.AddEmpty(SlicesOfGroup(dense, 0), all);
  for (int64_t head = 0; head < left.heads; ++head) {
    const int64_t slot = SlotOf(layer, dense, head);
    spreading.Add(SlicesOfHead(layer, head), SlicesOfHead(dense, slot));
  }
  const int64_t room = wanted.heads / wanted.kv_heads;
  for (int64_t group = 0; group < left.kv_heads; ++group) {
    const int64_t first = group * (left.heads / left.kv_heads);
    const int64_t place = SlotOf(layer, dense, first) / room;
    spreading.Add(SlicesOfGroup(layer, group), SlicesOfGroup(dense, place));
  }
  spreading.Apply(changed);
}

}  // namespace

Json ConfigOfTwin(Json config) {
  for (const char* key :
       {"heads_per_layer", "kv_heads_per_layer", "decoder_heads_per_layer",
        "cross_heads_per_layer", "bias_columns_per_layer",
        "decoder_bias_columns_per_layer", "pruned_heads"}) {
    config.erase(key);
  }
  return config;
}

ChangedTensors SpreadHeads(const Model& model, const WeightSource& weights,
                           const Json& config) {
  const auto dense = BuildModel(ReadConfig(ConfigOfTwin(config), "config.json"),
                                std::make_shared<ShapesOf>(weights));
  ChangedTensors changed;
  for (const AttentionKind kind :
       {AttentionKind::kSelf, AttentionKind::kDecoder, AttentionKind::kCross}) {
    const auto left = AttentionLayers(model, kind);
    const auto wanted = AttentionLayers(*dense, kind);
    for (size_t i = 0; i < left.size(); ++i) {
      SpreadLayer(*left[i], *wanted[i], weights, changed);
    }
  }
  return changed;
}

}  // namespace headwise
