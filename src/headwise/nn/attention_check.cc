// Whether a layer's configuration and weights go together, and what is special
// about it. Door: attention_layer.h.
#include <string>

#include "headwise/error.h"
#include "headwise/nn/attention_layer.h"

namespace headwise {
namespace {

void Require(bool holds, const AttentionSite& site, const std::string& expected,
             const std::string& found) {
  if (holds) return;
  throw Error(ErrorCode::kInvalidArgument,
              {site.name, expected, found, "config and weights disagree"});
}

}  // namespace

void AttentionLayer::RequireSense() const {
  const std::string heads = std::to_string(config_.heads);
  const int64_t columns =
      config_.heads * config_.head_dim + key_columns() + value_columns();
  const int64_t projected = projected_columns() + weights_.of_memory.out();
  Require(projected == columns, site_,
          std::to_string(columns) + " projected columns for " + heads +
              " heads and " + std::to_string(config_.kv_heads) +
              " kv heads of " + std::to_string(config_.head_dim),
          std::to_string(projected));
  const int64_t width = config_.heads * value_dim();
  Require(!weights_.output || weights_.output.in() == width, site_,
          std::to_string(width) + " inputs of the output projection",
          std::to_string(weights_.output.in()));
  Require(weights_.query_norm.Fits(config_.heads, config_.head_dim) &&
              weights_.key_norm.Fits(config_.kv_heads, config_.head_dim),
          site_, "norms of a head, of each head or of all",
          "another width or number");
  Require(!weights_.latent ||
              (!cross() && has_own_keys() && !config_.keys_are_values &&
               !weights_.query_norm && !weights_.key_norm),
          site_, "keys and values of its own latents alone",
          "others, or norms of heads");
  const Parameter& sinks = weights_.sinks.parameter();
  Require(!sinks ||
              (sinks.value.rank == 1 && sinks.value.shape[0] == config_.heads),
          site_, "sink logits [" + heads + "]", ToString(sinks.value));
  const OutputGate& gate = weights_.output_gate;
  Require(!gate || gate.width() == config_.heads || gate.width() == width,
          site_,
          "an output gate of " + heads + " heads or " + std::to_string(width) +
              " channels",
          std::to_string(gate.width()) + " columns");
  Require(
      !config_.keys_are_values || value_dim() == config_.head_dim, site_,
      "values as wide as the keys that they are",
      std::to_string(value_dim()) + " and " + std::to_string(config_.head_dim));
  Require(!cross() || (has_own_keys() && !config_.shares_keys), site_,
          "keys of the memory in cross-attention", "keys that layers share");
  Require(has_own_keys() || (!config_.keys_are_values && !weights_.key_norm &&
                             !config_.shares_keys),
          site_, "nothing made of the keys of another layer",
          "a norm of keys, keys as values, or keys shared on");
  const char* bias = weights_.bias || weights_.alibi ? BiasName() : nullptr;
  const bool other = cross() || weights_.spans.config().ramp > 0 ||
                     (weights_.bias && weights_.alibi);
  Require(bias == nullptr || !other, site_,
          "a relative bias of self-attention without learned spans",
          cross() ? "cross-attention" : "another bias by distance");
  Require(bias == nullptr || std::ssize(bias_columns()) == config_.heads, site_,
          "a relative bias of " + heads + " heads",
          std::to_string(bias_columns().size()) + " columns");
}

const char* AttentionLayer::BiasName() const {
  if (weights_.spans.config().ramp > 0) return "learned spans";
  if (weights_.alibi) return "slopes (ALiBi)";
  return weights_.bias != nullptr ? "a relative bias" : nullptr;
}

std::span<const int32_t> AttentionLayer::bias_columns() const {
  if (weights_.alibi) return weights_.alibi.columns();
  if (weights_.bias == nullptr) return {};
  return weights_.bias->columns();
}

const char* AttentionLayer::Special() const {
  if (weights_.sinks) return "sink logits";
  if (weights_.output_gate) return "an output gate";
  if (weights_.latent) return "keys and values of latents";
  if (config_.keys_are_values) return "keys as values";
  if (weights_.value_norm) return "a norm of values";
  if (weights_.query_norm.norms().size() > 1) return "a norm for each head";
  if (!has_own_keys()) return "keys and values of another layer";
  return config_.shares_keys ? "keys and values that layers share" : nullptr;
}

}  // namespace headwise
