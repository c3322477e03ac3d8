// Naming heads. Door: head_ref.h.
#include "headwise/model/head_ref.h"

#include <charconv>
#include <set>

#include "headwise/error.h"

namespace headwise {
namespace {

constexpr AttentionKind kKinds[] = {
    AttentionKind::kSelf, AttentionKind::kDecoder, AttentionKind::kCross};

// The whole of `text` as a number ≥ 0, or −1.
int64_t Number(std::string_view text) {
  int64_t value = -1;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 ? value : -1;
}

HeadRef ParseHead(std::string_view word, const Model& model) {
  HeadRef head;
  std::string_view rest = word;
  const size_t colon = word.find(':');
  bool known = colon == word.npos;
  if (!known) {
    for (const AttentionKind kind : kKinds) {
      if (word.substr(0, colon) != Name(kind)) continue;
      head.kind = kind;
      known = true;
    }
    rest = word.substr(colon + 1);
  }
  const size_t point = rest.find('.');
  if (!known || point == rest.npos) {
    throw Error(ErrorCode::kInvalidArgument,
                {"heads", "layer.head, such as 5.1 or cross:5.1",
                 "\"" + std::string(word) + "\"", "both count from 0"});
  }
  head.layer = Number(rest.substr(0, point));
  head.head = Number(rest.substr(point + 1));
  const auto layers = AttentionLayers(model, head.kind);
  const int64_t count = static_cast<int64_t>(layers.size());
  if (count == 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"heads", "a kind of attention that this model has", std::string(word),
         "only encoder–decoders have decoder: and cross:"});
  }
  if (head.layer < 0 || head.layer >= count) {
    throw Error(ErrorCode::kInvalidArgument,
                {"heads", "layers 0 to " + std::to_string(count - 1),
                 std::string(word), "headwise info MODEL --heads lists them"});
  }
  const int64_t heads = layers[head.layer]->config().heads;
  if (head.head < 0 || head.head >= heads) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"heads",
         "heads " + std::to_string(head.layer) + ".0 to " +
             std::to_string(head.layer) + "." + std::to_string(heads - 1),
         std::string(word), "headwise info MODEL --heads lists them"});
  }
  return head;
}

}  // namespace

std::vector<HeadRef> ParseHeads(std::string_view text, const Model& model) {
  std::vector<HeadRef> heads;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    heads.push_back(ParseHead(text.substr(0, comma), model));
    text = comma == text.npos ? "" : text.substr(comma + 1);
  }
  RequireEachOnce(heads, "heads");
  return heads;
}

void RequireEachOnce(std::span<const HeadRef> heads, const std::string& where) {
  std::set<HeadRef> seen;
  for (const HeadRef& head : heads) {
    if (seen.insert(head).second) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {where, "every head once", ToString(head) + " again",
                 "leave one of them out"});
  }
}

std::vector<const AttentionLayer*> AttentionLayers(const Model& model,
                                                   AttentionKind kind) {
  const bool decoder = kind != AttentionKind::kSelf;
  std::vector<const AttentionLayer*> layers;
  if (decoder && model.decoder() == nullptr) return layers;
  const Stack& stack = decoder ? *model.decoder() : model.stack();
  for (const Block& block : stack.blocks) {
    layers.push_back(kind == AttentionKind::kCross ? &block.cross()
                                                   : &block.attention());
  }
  return layers;
}

std::vector<HeadRef> AllHeads(const Model& model) {
  std::vector<HeadRef> heads;
  for (const AttentionKind kind : kKinds) {
    const auto layers = AttentionLayers(model, kind);
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      for (int64_t head = 0; head < layers[layer]->config().heads; ++head) {
        heads.push_back({kind, static_cast<int64_t>(layer), head});
      }
    }
  }
  return heads;
}

bool SharesHeads(const ModelConfig& config) {
  for (int64_t i = 0; i < std::ssize(config.layers); ++i) {
    const int64_t of = config.layers[i].weights_of;
    if (of >= 0 && of != i) return true;
  }
  return false;
}

std::vector<HeadRef> UsesOf(const ModelConfig& config, const HeadRef& head) {
  if (head.kind != AttentionKind::kSelf) return {head};
  std::vector<HeadRef> uses;
  for (const int64_t layer : LayersSharing(config, head.layer)) {
    uses.push_back({head.kind, layer, head.head});
  }
  return uses;
}

std::vector<HeadRef> WithAllUses(const ModelConfig& config,
                                 std::span<const HeadRef> heads) {
  std::set<HeadRef> all;
  for (const HeadRef& head : heads) {
    for (const HeadRef& use : UsesOf(config, head)) all.insert(use);
  }
  return {all.begin(), all.end()};
}

}  // namespace headwise
