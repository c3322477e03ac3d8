// Door: pictures.h.
#include "headwise/drawing/pictures.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "headwise/drawing/svg.h"
#include "headwise/drawing/text.h"

namespace headwise {
namespace {

constexpr double kMargin = 24;
constexpr double kTop = 92;  // below title and layer names
constexpr double kColumn = 150;
constexpr double kRow = 38;
constexpr double kRadius = 14;

constexpr const char* kDashes[] = {"7 4", "none", "1.5 4"};
constexpr const char* kColors[] = {"s1", "s0", "s2"};
constexpr const char* kWords[] = {"queries", "keys", "values"};

struct Point {
  double x = 0, y = 0;
};

using Place = std::pair<AttentionKind, int64_t>;

std::string ColumnName(const Place& place) {
  return place.first == AttentionKind::kSelf
             ? fmt::format("layer {}", place.second)
             : fmt::format("{} {}", Name(place.first), place.second);
}

// Columns from left to right: the encoder's layers, then of each decoder layer
// self-attention and cross-attention.
std::vector<Place> Columns(const std::vector<HeadRef>& heads) {
  std::vector<Place> columns;
  for (const HeadRef& head : heads) columns.emplace_back(head.kind, head.layer);
  std::sort(columns.begin(), columns.end(), [](const Place& a, const Place& b) {
    const bool left = a.first != AttentionKind::kSelf;
    const bool right = b.first != AttentionKind::kSelf;
    return std::tuple(left, a.second, a.first) <
           std::tuple(right, b.second, b.first);
  });
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  return columns;
}

std::string Edge(const HeadEdge& edge, Point from, Point to, double share,
                 const std::string& hint) {
  const auto kind = static_cast<size_t>(edge.input);
  const double bend = std::max(30.0, (to.x - from.x) * 0.45);
  const double left = from.x + kRadius, right = to.x - kRadius;
  // Edges of two kinds between the same heads lie beside each other.
  const double shift = 5 * (static_cast<double>(kind) - 1);
  from.y += shift;
  to.y += shift;
  return fmt::format(
      "<path class=\"{} hollow\" stroke-dasharray=\"{}\" style=\"stroke-width:"
      "{:.2f};stroke-opacity:{:.2f}\" d=\"M{:.1f} {:.1f} C{:.1f} {:.1f} {:.1f} "
      "{:.1f} {:.1f} {:.1f}\"><title>{}</title></path>\n",
      kColors[kind], kDashes[kind], 1 + 3.5 * share, 0.35 + 0.65 * share, left,
      from.y, left + bend, from.y, right - bend, to.y, right, to.y,
      Escape(hint));
}

std::string Legend(double y) {
  std::string body;
  double x = kMargin;
  for (size_t i = 0; i < 3; ++i) {
    body += fmt::format(
        "<path class=\"{} hollow\" stroke-dasharray=\"{}\" "
        "style=\"stroke-width:2.5\" d=\"M{:.0f} {:.0f} h34\"/>\n",
        kColors[i], kDashes[i], x, y - 4);
    body += SvgText(x + 42, y, fmt::format("into {}", kWords[i]));
    x += 142;
  }
  return body;
}

}  // namespace

std::string CompositionSvg(const Composition& c, size_t top,
                           std::string_view title) {
  const std::vector<Place> columns = Columns(c.heads);
  std::vector<Point> points(c.heads.size());
  double height = 0;
  for (size_t i = 0; i < c.heads.size(); ++i) {
    const HeadRef& head = c.heads[i];
    const auto column = std::find(columns.begin(), columns.end(),
                                  Place(head.kind, head.layer)) -
                        columns.begin();
    points[i] = {kMargin + 30 + kColumn * static_cast<double>(column),
                 kTop + kRow * (static_cast<double>(head.head) + 0.5)};
    height = std::max(height, points[i].y + kRow / 2);
  }
  const size_t count = c.Shown(top);
  double strongest = 0;
  std::vector<bool> touched(c.heads.size());
  for (size_t i = 0; i < count; ++i) {
    strongest = std::max(strongest, c.Over(c.edges[i]));
    touched[c.edges[i].sender] = touched[c.edges[i].receiver] = true;
  }
  std::string body = SvgText(kMargin, 32, title, "class=\"title\"");
  body += SvgText(
      kMargin, 52,
      fmt::format("The {} strongest of {} ways in which heads feed heads; {} "
                  "scores less {:.3f}, what chance gives{}.",
                  count, c.edges.size(), "widths are", c.baseline,
                  c.rotary ? "; rotary positions at offset 0" : ""),
      "class=\"soft\"");
  for (size_t i = 0; i < columns.size(); ++i) {
    body += SvgText(kMargin + 30 + kColumn * static_cast<double>(i), kTop - 12,
                    ColumnName(columns[i]),
                    "class=\"soft\" text-anchor=\"middle\"");
  }
  // Weak ones first, so that strong ones lie on top.
  for (size_t i = count; i-- > 0;) {
    const HeadEdge& edge = c.edges[i];
    const double share =
        strongest > 0 ? std::max(0.0, c.Over(edge) / strongest) : 0;
    std::string hint =
        fmt::format("{} → {} of {}: {:.3f}", ToString(c.heads[edge.sender]),
                    kWords[static_cast<size_t>(edge.input)],
                    ToString(c.heads[edge.receiver]), edge.score);
    if (std::isfinite(edge.effect)) {
      hint += fmt::format(", changes it by {:.0f} %", 100 * edge.effect);
    }
    body += Edge(edge, points[edge.sender], points[edge.receiver], share, hint);
  }
  for (size_t i = 0; i < c.heads.size(); ++i) {
    body += fmt::format(
        "<circle class=\"paper\" cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"{2}\"/>"
        "<circle class=\"{3}\" cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"{2}\"/>\n",
        points[i].x, points[i].y, kRadius, touched[i] ? "axis" : "rule");
    body += SvgText(points[i].x, points[i].y + 4,
                    fmt::format("{}.{}", c.heads[i].layer, c.heads[i].head),
                    fmt::format("class=\"num{}\"", touched[i] ? "" : " soft"));
  }
  body += Legend(height + 34);
  const double width =
      kMargin * 2 + 60 +
      kColumn * std::max(0.0, static_cast<double>(columns.size()) - 1);
  return SvgDocument({std::move(body), std::max(width, 720.0), height + 56},
                     title,
                     "Heads as circles, layers from left to right; lines from "
                     "a head to later heads that read what it writes.");
}

}  // namespace headwise
