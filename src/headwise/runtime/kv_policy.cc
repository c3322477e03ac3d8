// Policies of key/value caches. Door: kv_policy.h.
#include "headwise/runtime/kv_policy.h"

#include <fmt/core.h>

#include <limits>

#include "headwise/error.h"

namespace headwise {
namespace {

constexpr const char* kFormat = "headwise.kv-policy/1";
// Positions are 32-bit numbers.
constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 4;

}  // namespace

AttentionKind CachedKind(const Model& model) {
  return model.decoder() != nullptr ? AttentionKind::kDecoder
                                    : AttentionKind::kSelf;
}

void RequireKvPolicy(const KvPolicy& policy, const Model& model) {
  if (policy.sinks < 0 || policy.window < 1 || policy.sinks > kMost ||
      policy.window > kMost) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"cache policy", fmt::format("sinks ≥ 0, window ≥ 1, both ≤ {}", kMost),
         fmt::format("sinks {}, window {}", policy.sinks, policy.window), ""});
  }
  const AttentionKind kind = CachedKind(model);
  const auto layers = AttentionLayers(model, kind);
  for (const HeadRef& head : policy.whole) {
    if (head.kind == kind && head.layer >= 0 &&
        head.layer < std::ssize(layers) && head.head >= 0 &&
        head.head < layers[head.layer]->config().heads) {
      continue;
    }
    throw Error(ErrorCode::kInvalidArgument,
                {"cache policy",
                 fmt::format("heads of the {} attention, which has a cache",
                             Name(kind)),
                 ToString(head), "headwise info lists layers and heads"});
  }
}

std::vector<bool> WholeGroups(const KvPolicy& policy,
                              const AttentionLayer& layer) {
  const AttentionLayerConfig& config = layer.config();
  std::vector<bool> whole(config.kv_heads, false);
  for (const HeadRef& head : policy.whole) {
    if (head.layer != layer.site().layer) continue;
    whole[head.head / (config.heads / config.kv_heads)] = true;
  }
  return whole;
}

Json ToJson(const KvPolicy& policy, const std::string& model_hash) {
  std::vector<std::string> whole;
  for (const HeadRef& head : policy.whole) whole.push_back(ToString(head));
  return {{"format", kFormat},
          {"model_hash", model_hash},
          {"sinks", policy.sinks},
          {"window", policy.window},
          {"whole", whole}};
}

KvPolicy ReadKvPolicy(const std::filesystem::path& path, const Model& model,
                      const std::string& model_hash) {
  const Json json = ReadJson(path);
  const JsonCursor root(json, path.string());
  if (!json.is_object()) root.Fail("an object");
  if (root.String("format", "") != kFormat) {
    throw Error(ErrorCode::kCorrupt,
                {path.string(), fmt::format("\"format\": \"{}\"", kFormat),
                 root.String("format", "none"), ""});
  }
  const std::string hash = root.String("model_hash", model_hash);
  if (hash != model_hash) {
    throw Error(ErrorCode::kInvalidArgument,
                {path.string(),
                 "a cache policy of this model, whose hash is " + model_hash,
                 "one of " + hash, "make one from a profile of this model"});
  }
  KvPolicy policy;
  policy.sinks = root.Int("sinks", 0, kMost, policy.sinks);
  policy.window = root.Int("window", 1, kMost, policy.window);
  for (const JsonCursor& item : root["whole"].Items()) {
    const std::vector<HeadRef> heads = ParseHeads(item.String(), model);
    policy.whole.insert(policy.whole.end(), heads.begin(), heads.end());
  }
  RequireKvPolicy(policy, model);
  return policy;
}

}  // namespace headwise
