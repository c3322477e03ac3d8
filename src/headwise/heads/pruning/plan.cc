// Plans and what is legal in them. Door: plan.h.
#include "headwise/heads/pruning/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "headwise/base/fields.h"
#include "headwise/error.h"

namespace headwise {
namespace {

constexpr const char* kFormat = "headwise.plan/1";

[[noreturn]] void Refuse(const std::string& expected, const std::string& found,
                         const std::string& hint = "") {
  throw Error(ErrorCode::kInvalidArgument, {"plan", expected, found, hint});
}

// "layer 3", "layer 3 of the decoder's cross-attention"
std::string LayerName(AttentionKind kind, int64_t layer) {
  if (kind == AttentionKind::kSelf) return fmt::format("layer {}", layer);
  return fmt::format("{} layer {}", Name(kind), layer);
}

// Heads that are left of each group of one layer that keeps any.
void RequireEqualGroups(const AttentionLayerConfig& config,
                        const std::string& name,
                        const std::set<int64_t>& removed) {
  const int64_t size = config.heads / config.kv_heads;
  int64_t first = 0, first_group = -1;
  for (int64_t group = 0; group < config.kv_heads; ++group) {
    int64_t left = 0;
    for (int64_t head = group * size; head < (group + 1) * size; ++head) {
      if (!removed.contains(head)) ++left;
    }
    if (left == 0) continue;
    if (first_group < 0) {
      first = left;
      first_group = group;
    } else if (left != first) {
      Refuse(
          fmt::format("as many heads in each group of {} that keeps any", name),
          fmt::format("{} in group {}, {} in group {}", first, first_group,
                      left, group),
          fmt::format("heads {} to {} share the keys of group {}; remove the "
                      "same number from every group, or whole groups",
                      group * size, (group + 1) * size - 1, group));
    }
  }
}

GateLearning ReadGates(const JsonCursor& gates) {
  GateLearning learning;
  learning.steps = gates["steps"].Int(1, kMostGateSteps);
  learning.penalty = gates["penalty"].Number();
  learning.rate = gates["weights_rate"].Number();
  if (learning.penalty < 0) gates["penalty"].Fail("at least 0");
  if (learning.rate < 0) gates["weights_rate"].Fail("at least 0");
  const JsonCursor seed = gates["seed"];
  if (!seed.value().is_number_unsigned()) seed.Fail("a seed");
  learning.seed = seed.value().get<uint64_t>();
  return learning;
}

}  // namespace

void RequireRemovable(const Model& model, std::span<const HeadRef> removed,
                      EmptyLayers empty) {
  if (model.config().gates.kind == GateKind::kMixture && !removed.empty()) {
    throw Error(ErrorCode::kUnsupported,
                {"plan", "a model without a router among its heads",
                 "a mixture of heads",
                 "its router already chooses heads for each token"});
  }
  std::map<std::pair<AttentionKind, int64_t>, std::set<int64_t>> sites;
  for (const HeadRef& head : removed) {
    const auto layers = AttentionLayers(model, head.kind);
    if (head.layer < 0 || head.layer >= std::ssize(layers) || head.head < 0 ||
        head.head >= layers[head.layer]->config().heads) {
      Refuse("heads that the model has", ToString(head));
    }
    if (!sites[{head.kind, head.layer}].insert(head.head).second) {
      Refuse("every head once", ToString(head) + " again");
    }
  }
  for (const HeadRef& head : removed) {
    for (const HeadRef& use : UsesOf(model.config(), head)) {
      if (sites[{use.kind, use.layer}].contains(use.head)) continue;
      Refuse("every use of a head whose weights layers share, " +
                 ToString(use) + " with " + ToString(head),
             ToString(head) + " alone");
    }
  }
  for (const auto& [site, heads] : sites) {
    const auto& [kind, layer] = site;
    const AttentionLayerConfig& config =
        AttentionLayers(model, kind)[layer]->config();
    const std::string name = LayerName(kind, layer);
    if (std::ssize(heads) == config.heads && empty == EmptyLayers::kRefused) {
      Refuse("a head that stays in " + name, "none of them",
             "empty layers are allowed only where they are asked for");
    }
    RequireEqualGroups(config, name, heads);
  }
}

Json ToJson(const PruningPlan& plan, const Model& model) {
  Json json = {{"format", kFormat},
               {"model", plan.model},
               {"model_hash", plan.model_hash},
               {"criterion", plan.criterion}};
  std::vector<std::string> names;
  for (const HeadRef& head : plan.removed) names.push_back(ToString(head));
  json["remove"] = names;
  if (plan.gates) json["gates"] = FieldsToJson(*plan.gates);
  if (plan.scores.empty()) return json;
  Json scores = Json::object();
  const std::vector<HeadRef> heads = AllHeads(model);
  for (size_t i = 0; i < heads.size(); ++i) {
    scores[ToString(heads[i])] = plan.scores[i];
  }
  json["scores"] = std::move(scores);
  return json;
}

PruningPlan ReadPlan(const std::filesystem::path& path, const Model& model,
                     const std::string& model_hash) {
  const Json json = ReadJson(path);
  const JsonCursor root(json, path.string());
  if (!json.is_object()) root.Fail("an object");
  if (root.String("format", "") != kFormat) {
    throw Error(ErrorCode::kCorrupt,
                {path.string(), fmt::format("\"format\": \"{}\"", kFormat),
                 root.String("format", "none"), "headwise prune writes plans"});
  }
  PruningPlan plan;
  plan.model = root.String("model", "");
  plan.model_hash = root.String("model_hash", "");
  plan.criterion = root.String("criterion", "given");
  if (plan.model_hash != model_hash) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {path.string(), "a plan of this model, whose hash is " + model_hash,
         fmt::format("one of {}, {}",
                     plan.model.empty() ? "another" : plan.model,
                     plan.model_hash),
         "headwise prune --plan-only makes one of this model"});
  }
  const auto remove = root.Find("remove");
  if (!remove) root.Fail("a list \"remove\" of heads");
  for (const JsonCursor& item : remove->Items()) {
    const std::vector<HeadRef> heads = ParseHeads(item.String(), model);
    plan.removed.insert(plan.removed.end(), heads.begin(), heads.end());
  }
  RequireEachOnce(plan.removed, remove->where());
  std::sort(plan.removed.begin(), plan.removed.end());
  if (const auto gates = root.Find("gates")) plan.gates = ReadGates(*gates);
  const auto scores = root.Find("scores");
  if (!scores) return plan;
  for (const HeadRef& head : AllHeads(model)) {
    const auto score = scores->Find(ToString(head).c_str());
    if (!score) scores->Fail("a score of every head, " + ToString(head));
    plan.scores.push_back(score->Number());
  }
  return plan;
}

}  // namespace headwise
