// Edges as JSON and as a graph for Graphviz. Door: composition.h.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "headwise/heads/composition/composition.h"

namespace headwise {
namespace {

Json FiveDecimals(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::round(value * 1e5) / 1e5;
}

}  // namespace

Json ToJson(const Composition& c, size_t top) {
  Json heads = Json::array();
  for (const HeadRef& head : c.heads) heads.push_back(ToString(head));
  Json edges = Json::array();
  const size_t count =
      top == 0 ? c.edges.size() : std::min(top, c.edges.size());
  for (size_t i = 0; i < count; ++i) {
    const HeadEdge& edge = c.edges[i];
    edges.push_back({{"sender", ToString(c.heads[edge.sender])},
                     {"receiver", ToString(c.heads[edge.receiver])},
                     {"input", Name(edge.input)},
                     {"score", FiveDecimals(edge.score)},
                     {"over", FiveDecimals(c.Over(edge))},
                     {"effect", FiveDecimals(edge.effect)}});
  }
  Json groups = Json::array();
  for (size_t head = 0; head < c.heads.size(); ++head) {
    const std::vector<size_t> sharing = c.Sharing(head);
    if (sharing.size() < 2 || sharing[0] != head) continue;
    Json group = Json::array();
    for (const size_t one : sharing) group.push_back(ToString(c.heads[one]));
    groups.push_back(std::move(group));
  }
  return {{"format", "headwise.composition/1"},
          {"heads", std::move(heads)},
          {"key_groups", std::move(groups)},
          {"query_norms", c.query_norms},
          {"baseline", FiveDecimals(c.baseline)},
          {"rotary_offset", c.rotary ? Json(0) : nullptr},
          {"ablation", c.effect_tokens > 0 ? Json(c.ablation) : nullptr},
          {"effect_tokens", c.effect_tokens},
          {"all_edges", c.edges.size()},
          {"edges", std::move(edges)}};
}

std::string ToDot(const Composition& c, size_t top) {
  // Nodes that the edges touch, by kind and layer, so that each layer is a
  // rank of its own.
  std::map<std::pair<AttentionKind, int64_t>, std::set<HeadRef>> layers;
  double strongest = 0;
  const size_t count = c.Shown(top);
  for (size_t i = 0; i < count; ++i) {
    for (const size_t at : {c.edges[i].sender, c.edges[i].receiver}) {
      const HeadRef& head = c.heads[at];
      layers[{head.kind, head.layer}].insert(head);
    }
    strongest = std::max(strongest, c.Over(c.edges[i]));
  }
  std::string dot =
      "digraph heads {\n  rankdir=LR;\n"
      "  node [shape=circle, fontname=\"sans-serif\"];\n"
      "  edge [fontname=\"sans-serif\"];\n";
  for (const auto& [place, heads] : layers) {
    dot += "  { rank=same;";
    for (const HeadRef& head : heads)
      dot += fmt::format(" \"{}\";", ToString(head));
    dot += " }\n";
  }
  constexpr const char* kStyles[] = {"dashed", "solid", "dotted"};
  for (size_t i = 0; i < count; ++i) {
    const HeadEdge& edge = c.edges[i];
    const double share =
        strongest > 0 ? std::max(0.0, c.Over(edge) / strongest) : 0;
    dot += fmt::format(
        "  \"{}\" -> \"{}\" [label=\"{} {:.2f}\", style={}, "
        "penwidth={:.2f}];\n",
        ToString(c.heads[edge.sender]), ToString(c.heads[edge.receiver]),
        Name(edge.input), edge.score, kStyles[static_cast<size_t>(edge.input)],
        0.5 + 3 * share);
  }
  return dot + "}\n";
}

}  // namespace headwise
