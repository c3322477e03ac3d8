// Shared by the family files: a checkpoint's weights as layers, by name.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/config.h"
#include "headwise/model/weights.h"
#include "headwise/nn/alibi_slopes.h"
#include "headwise/nn/head_gates.h"
#include "headwise/nn/linear.h"
#include "headwise/nn/norm.h"
#include "headwise/nn/relative_bias.h"
#include "headwise/nn/rope_table.h"

namespace headwise {

class FamilyBuilder {
 protected:
  FamilyBuilder(const ModelConfig& config, const WeightSource& weights)
      : config_(config), weights_(weights) {
    for (const RopeConfig& rope : config.ropes) {
      ropes_.push_back(std::make_shared<RopeTable>(rope));
    }
  }

  // Refuses tensors of one layer more than the configuration counts: without
  // them it would be another model. prefix: of the layers' names, "h.".
  void RequireLast(const std::string& prefix,
                   const std::vector<LayerShape>& layers) const {
    const std::string next = prefix + std::to_string(layers.size()) + ".";
    for (const std::string& name : weights_.Names()) {
      if (!name.starts_with(next)) continue;
      throw Error(ErrorCode::kCorrupt,
                  {weights_.Describe(),
                   "as many layers as its configuration says, " +
                       std::to_string(layers.size()),
                   "another one, " + name, "do both belong together?"});
    }
  }

  // Whether the checkpoint has a tensor that tells variants apart; a new model
  // has it where `when_new`.
  bool Has(const std::string& name, bool when_new) const {
    return weights_.Find(name) || (when_new && weights_.Makes(name));
  }

  // A bias is read only where the configuration says that there is one.
  Linear::Part Biased(bool biased, const std::string& name, int64_t in,
                      int64_t out, const Start& weight) const {
    if (biased) return Part(name, in, out, weight);
    return {weights_.Get(name + ".weight", {out, in}, weight), {}};
  }

  // NAME.weight [out, in] and NAME.bias [out], which may be absent.
  Linear::Part Part(const std::string& name, int64_t in, int64_t out,
                    const Start& weight,
                    const Start& bias = Start::Zero()) const {
    return {weights_.Get(name + ".weight", {out, in}, weight),
            weights_.Maybe(name + ".bias", {out}, bias)};
  }
  Linear Dense(std::vector<Linear::Part> parts) const {
    return Linear(std::move(parts), WeightLayout::kOutIn);
  }
  Linear Dense(const std::string& name, int64_t in, int64_t out,
               const Start& weight) const {
    return Dense({Part(name, in, out, weight)});
  }

  // The output matrix [vocabulary, d], d being the embeddings' width: its own,
  // or the token embeddings where the checkpoint has none and the configuration
  // ties them.
  Linear Output(const std::string& name, const Parameter& tokens) const {
    const int64_t rows = config_.vocabulary, d = config_.EmbeddingWidth();
    if (!config_.tied_embeddings) {
      return Dense({{weights_.Get(name, {rows, d}, Start::Normal()), {}}});
    }
    const Parameter own = weights_.Maybe(name, {rows, d}, Start::Absent());
    return Dense({{own ? own : tokens, {}}});
  }

  // Checkpoints converted from TensorFlow say gamma and beta.
  Norm LayerNorm(const std::string& name) const {
    return LayerNorm(name, config_.width);
  }
  Norm LayerNorm(const std::string& name, int64_t width) const {
    const auto maybe = [&](const char* which, const Start& start) {
      return weights_.Maybe(name + which, {width}, start);
    };
    Parameter weight = maybe(".gamma", Start::Absent());
    if (!weight) weight = weights_.Get(name + ".weight", {width}, Start::One());
    Parameter bias;
    if (config_.norm_bias) {
      bias = maybe(".beta", Start::Absent());
      if (!bias) bias = maybe(".bias", Start::Zero());
    }
    return Norm(NormKind::kLayer, config_.norm_epsilon, weight, bias);
  }
  Norm RmsNorm(const std::string& name, int64_t width) const {
    const float offset = config_.norm_offset;
    return Norm(
        NormKind::kRms, config_.norm_epsilon,
        weights_.Get(name + ".weight", {width}, Start::Value(1 - offset)), {},
        offset);
  }

  // Gates of an attention layer: tensors under "headwise.", which others pass
  // over. site: "layer.3.attention".
  HeadGates Gates(const std::string& site, int64_t heads) const {
    const GateConfig& config = config_.gates;
    const std::string name = "headwise." + site + ".";
    GateWeights weights;
    if (heads == 0) return {};
    if (config.kind == GateKind::kHardConcrete) {
      weights.log_alpha =
          weights_.Get(name + "log_alpha", {heads}, Start::Value(kNewLogAlpha));
    } else if (config.kind == GateKind::kMixture) {
      const int64_t d = config_.width, shared = config.shared;
      auto rows = [&](const char* which, int64_t count) -> Linear::Part {
        return {weights_.Get(name + which, {count, d}, Start::Normal()), {}};
      };
      std::vector<Linear::Part> parts = {rows("router.routed", heads - shared)};
      if (shared > 0) {
        parts.push_back(rows("router.shared", shared));
        parts.push_back(rows("router.kinds", 2));
      }
      weights.router = Dense(std::move(parts));
    }
    return {config, std::move(weights), heads};
  }

  // Learned spans of self-attention.
  HeadSpans Spans(const std::string& site, int64_t heads) const {
    if (heads == 0 || config_.spans.ramp == 0) return {};
    return {config_.spans, weights_.Get("headwise." + site + ".span", {heads},
                                        Start::Value(kNewSpan))};
  }

  // The relative table [buckets, heads] that the layers of a stack share.
  std::shared_ptr<const RelativeBias> Bias(const std::string& name,
                                           int64_t heads,
                                           bool bidirectional) const {
    RelativeBuckets buckets = config_.relative;
    buckets.bidirectional = bidirectional;
    std::vector<int32_t> columns(static_cast<size_t>(heads));
    std::iota(columns.begin(), columns.end(), 0);
    return std::make_shared<RelativeBias>(
        buckets, weights_.Get(name, {buckets.count, heads}, Start::Normal()),
        std::move(columns));
  }
  // A layer's share of it.
  static std::shared_ptr<const RelativeBias> BiasOf(
      const LayerShape& layer, const std::shared_ptr<const RelativeBias>& all) {
    if (layer.heads == 0) return nullptr;
    if (layer.bias_columns.empty()) return all;
    return std::make_shared<RelativeBias>(all->buckets(), all->table(),
                                          layer.bias_columns);
  }
  // Its slopes (ALiBi), of config.alibi_heads.
  AlibiSlopes Slopes(const LayerShape& layer) const {
    if (layer.heads == 0) return {};
    std::vector<int32_t> columns = layer.bias_columns;
    if (columns.empty()) {
      columns.resize(static_cast<size_t>(layer.heads));
      std::iota(columns.begin(), columns.end(), 0);
    }
    return {config_.alibi_heads, std::move(columns)};
  }

  // How a layer turns, one table for all layers that turn alike; null: it does
  // not.
  std::shared_ptr<const RopeTable> Rope(const LayerShape& layer) const {
    if (layer.rope == kNoRope) return nullptr;
    return ropes_.at(static_cast<size_t>(layer.rope));
  }

  const ModelConfig& config_;
  const WeightSource& weights_;

 private:
  std::vector<std::shared_ptr<const RopeTable>> ropes_;
};

}  // namespace headwise
