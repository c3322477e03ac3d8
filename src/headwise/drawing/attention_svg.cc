// Maps and arcs. Door: pictures.h.
#include "headwise/drawing/pictures.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "headwise/drawing/arcs_svg.h"
#include "headwise/drawing/text.h"

namespace headwise {
namespace {

constexpr double kMargin = 20;
constexpr double kCharacter = 7;
constexpr int kLongest = 14;  // characters of a token

size_t Side(const HeatMap& map) {
  return std::max(map.rows.size(), map.columns.size());
}

double LabelWidth(const std::vector<std::string>& labels) {
  double widest = 10;
  for (const std::string& label : labels) {
    widest =
        std::max(widest, kCharacter * std::min(kLongest, DisplayWidth(label)));
  }
  return widest;
}

MapLayout LayoutOf(const HeatMap& map) {
  const auto side = static_cast<double>(Side(map));
  MapLayout layout;
  layout.labels = Side(map) <= kMostLabelled;
  layout.hints = layout.labels;
  layout.cell = std::clamp(560 / side, 3.0, 40.0);
  if (side <= 6) layout.cell = 56;
  // Wider, so that words need not stand upright.
  const double lying = LabelWidth(map.columns) + 6;
  if (lying * side <= 960) layout.cell = std::max(layout.cell, lying);
  layout.numbers = layout.cell >= 30;
  layout.label_width = LabelWidth(map.rows) + 10;
  return layout;
}

Drawing Titled(const HeatMap& map, const Drawing& under) {
  std::string body = SvgText(kMargin, 26, map.title, "class=\"title\"");
  body += Placed(0, 40, under);
  return {std::move(body),
          std::max(under.width, 9.2 * DisplayWidth(map.title) + 2 * kMargin),
          under.height + 40};
}

void Append(const HeatMap& map, std::vector<Drawing>& parts) {
  if (map.query) {
    parts.push_back(Titled(map, DrawLooks(map)));
    return;
  }
  const MapLayout layout = LayoutOf(map);
  Drawing cells = DrawMapSvg(map, layout);
  cells.body = Placed(kMargin, 0, cells);
  cells.width += 2 * kMargin;
  cells.height += 12;
  parts.push_back(Titled(map, cells));
  if (layout.labels) {
    parts.push_back(
        DrawArcs(map, EvenColumns{kMargin + layout.label_width, layout.cell}));
  }
}

Drawing Line(std::string_view text) {
  return {SvgText(kMargin, 18, text, "class=\"soft\""),
          6.2 * DisplayWidth(text) + 2 * kMargin, 22};
}

// What the colours and signs of these maps mean.
void AppendLegend(std::span<const HeatMap> maps, std::vector<Drawing>& parts) {
  Drawing scale =
      DrawScale("1", "share of a row's attention; rows look at columns");
  scale.body = Placed(kMargin, 12, scale);
  parts.push_back(
      {std::move(scale.body), scale.width + 2 * kMargin, scale.height + 16});
  if (std::any_of(maps.begin(), maps.end(),
                  [](const HeatMap& map) { return map.query.has_value(); })) {
    parts.push_back(
        Line("The framed word looks along the arcs. Below each word: its "
             "share, and its place seen from there."));
  }
}

}  // namespace

std::string AttentionSvg(std::span<const HeatMap> maps, std::string_view title,
                         std::string_view note) {
  std::vector<Drawing> parts;
  for (const HeatMap& map : maps) Append(map, parts);
  AppendLegend(maps, parts);
  if (!note.empty()) parts.push_back(Line(note));
  parts.push_back({"", 0, 10});
  return SvgDocument(StackDrawings(parts), title,
                     "Rows look at columns; fuller cells and stronger arcs "
                     "are larger shares of a row's attention.");
}

}  // namespace headwise
