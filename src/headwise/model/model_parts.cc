// Parts of a model. Door: model_parts.h.
#include "headwise/model/model_parts.h"

#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/base/nearest.h"
#include "headwise/error.h"

namespace headwise {
namespace {

using NameSet = std::set<std::string>;
using PartTable = std::map<std::string, NameSet>;

void Take(const Parameter& parameter, NameSet& names) {
  if (parameter) names.insert(parameter.name);
}

void Take(const Norm& norm, NameSet& names) {
  if (!norm) return;
  Take(norm.weight_parameter(), names);
  Take(norm.bias_parameter(), names);
}

void Take(const Linear& linear, NameSet& names) {
  for (const Parameter* parameter : linear.parameters()) {
    Take(*parameter, names);
  }
}

void AddBlock(const Block& block, PartTable& table) {
  NameSet& whole = table[block.name()];
  for (const BlockStep& step : block.steps()) {
    const std::vector<const Parameter*> weights = step.weights();
    if (weights.empty()) continue;
    NameSet& names = table[block.name() + "." + step.name()];
    for (const Parameter* weight : weights) Take(*weight, names);
    whole.insert(names.begin(), names.end());
  }
}

void AddStack(const Stack& stack, PartTable& table) {
  NameSet& embedding = table[stack.prefix + "embedding"];
  Take(stack.embeddings.tokens, embedding);
  Take(stack.embeddings.token_projection, embedding);
  Take(stack.embeddings.positions, embedding);
  Take(stack.embeddings.types, embedding);
  Take(stack.embeddings.norm, embedding);
  Take(stack.embeddings.projection, embedding);
  for (const Block& block : stack.blocks) AddBlock(block, table);
  if (stack.final_norm) Take(stack.final_norm, table[stack.prefix + "final"]);
}

PartTable TableOf(const Model& model) {
  PartTable table;
  AddStack(model.stack(), table);
  if (model.decoder() != nullptr) AddStack(*model.decoder(), table);
  if (!model.has_head()) return table;
  NameSet& head = table["head"];
  Take(model.head().transform, head);
  Take(model.head().norm, head);
  Take(model.head().vocabulary, head);
  Take(model.head().bias, head);
  return table;
}

// A number at the front of the text, which then loses it.
std::optional<int64_t> TakeNumber(std::string_view& text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return number;
}

// "layer.0-3.mlp" as the part of each layer; others as they are.
std::vector<std::string> Expand(const std::string& part) {
  constexpr std::string_view kLayer = "layer.";
  // More layers than any model has would only take time to refuse.
  constexpr int64_t kMostLayers = 1 << 16;
  const size_t at = part.find(kLayer);
  if (at == std::string::npos) return {part};
  const std::string before = part.substr(0, at + kLayer.size());
  std::string_view rest = std::string_view(part).substr(before.size());
  const auto first = TakeNumber(rest);
  if (!first || !rest.starts_with('-')) return {part};
  rest.remove_prefix(1);
  const auto last = TakeNumber(rest);
  if (!last || *last < *first || *last >= kMostLayers) return {part};
  std::vector<std::string> parts;
  for (int64_t layer = *first; layer <= *last; ++layer) {
    parts.push_back(before + std::to_string(layer) + std::string(rest));
  }
  return parts;
}

}  // namespace

std::set<std::string> ParametersOf(const Model& model,
                                   std::span<const std::string> parts) {
  const PartTable table = TableOf(model);
  NameSet names;
  for (const std::string& wanted : parts) {
    for (const std::string& part : Expand(wanted)) {
      const auto found = table.find(part);
      if (found != table.end()) {
        names.insert(found->second.begin(), found->second.end());
        continue;
      }
      std::vector<std::string> known;
      for (const auto& [name, of] : table) known.push_back(name);
      throw Error(ErrorCode::kInvalidArgument,
                  {"parts", "a part of the model", "\"" + part + "\"",
                   "the nearest is \"" + Nearest(part, known) + "\""});
    }
  }
  return names;
}

}  // namespace headwise
