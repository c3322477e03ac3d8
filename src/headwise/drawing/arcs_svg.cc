// Door: arcs_svg.h.
#include "headwise/drawing/arcs_svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "headwise/drawing/text.h"

namespace headwise {
namespace {

constexpr double kMargin = 20;
constexpr double kCharacter = 7;
constexpr double kGap = 16;  // between tokens
constexpr double kLeastShare = 0.05;
constexpr int kLongest = 14;  // characters of a token

double WidthOf(const std::string& label) {
  return kCharacter * std::max(2, DisplayWidth(label));
}

// Where the middle of each token stands on a line.
struct TokenLine {
  explicit TokenLine(const std::vector<std::string>& tokens,
                     const std::optional<EvenColumns>& columns = std::nullopt) {
    double widest = 0;
    for (const std::string& token : tokens) {
      labels.push_back(Shorten(token, kLongest));
      widest = std::max(widest, WidthOf(labels.back()));
    }
    const bool even = columns && widest + 2 <= columns->pitch;
    double x = even ? columns->left : kMargin;
    for (const std::string& label : labels) {
      const double size = even ? columns->pitch : WidthOf(label);
      middles.push_back(x + size / 2);
      x += even ? size : size + kGap;
    }
    width = even ? x + kMargin : x - kGap + kMargin;
  }
  std::string Draw(double y) const {
    std::string body;
    for (size_t i = 0; i < labels.size(); ++i) {
      body += SvgText(middles[i], y, labels[i], "text-anchor=\"middle\"");
    }
    return body;
  }
  std::vector<std::string> labels;
  std::vector<double> middles;
  double width = 0;
};

std::string Stroke(double share) {
  return fmt::format(
      "class=\"s0 hollow\" style=\"stroke-opacity:{:.2f};stroke-width:{:.1f}\"",
      0.25 + 0.75 * std::min(1.0, share), 0.75 + 2.5 * std::min(1.0, share));
}

std::string Hint(const std::string& row, const std::string& column,
                 double share) {
  return fmt::format("<title>{} → {} {}</title>", Escape(row), Escape(column),
                     Share(share));
}

double ArcHeight(double distance) {
  return std::min(110.0, 10 + distance * 0.35);
}

// An arc between two places of a line at y, with a dot where it is looked at;
// `sign` −1 above the line, 1 below. To itself: a small loop above.
std::string Arc(double from, double to, double y, int sign, double share,
                const std::string& hint) {
  const bool loop = from == to;
  const double peak =
      loop ? y - 16 : y + sign * ArcHeight(std::abs(from - to)) * 4 / 3;
  const double lean = loop ? -2 : (to - from) * 0.15;
  const double half = loop ? 5 : 0;
  std::string body = fmt::format(
      "<path {} d=\"M{:.1f} {:.1f} C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} "
      "{:.1f}\">{}</path>\n",
      Stroke(share), from - half, y, from - half + lean, peak, to + half - lean,
      peak, to + half, y, hint);
  if (loop) return body;
  return body +
         fmt::format(
             "<circle class=\"s0\" cx=\"{:.1f}\" cy=\"{:.1f}\" "
             "r=\"{:.1f}\" style=\"stroke:none;fill-opacity:{:.2f}\"/>\n",
             to, y, 1.5 + 1.5 * std::min(1.0, share),
             0.25 + 0.75 * std::min(1.0, share));
}

Drawing OneLine(const HeatMap& map, const std::optional<EvenColumns>& columns) {
  const TokenLine line(map.rows, columns);
  const size_t n = map.rows.size();
  auto each = [&](auto&& use) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        const double share = map.values[i * n + j];
        if (share >= kLeastShare) use(i, j, share);
      }
    }
  };
  double above = 0, below = 0;  // the tallest arc on either side
  each([&](size_t i, size_t j, double) {
    const double height =
        ArcHeight(std::abs(line.middles[i] - line.middles[j]));
    double& side = j > i ? below : above;
    side = std::max(side, height);
  });
  const double top = above + 14, baseline = top + 14;
  std::string body = line.Draw(baseline);
  each([&](size_t i, size_t j, double share) {
    body +=
        Arc(line.middles[i], line.middles[j], j > i ? baseline + 6 : top,
            j > i ? 1 : -1, share, Hint(map.rows[i], map.columns[j], share));
  });
  return {std::move(body), line.width, baseline + below + 24};
}

Drawing TwoLines(const HeatMap& map) {
  const TokenLine keys(map.columns), queries(map.rows);
  constexpr double kTop = 16, kBottom = 130;
  std::string body = keys.Draw(kTop) + queries.Draw(kBottom + 16);
  const size_t columns = map.columns.size();
  for (size_t i = 0; i < map.rows.size(); ++i) {
    for (size_t j = 0; j < columns; ++j) {
      const double share = map.values[i * columns + j];
      if (!(share >= kLeastShare)) continue;
      body += fmt::format(
          "<path {} d=\"M{:.1f} {:.1f} L{:.1f} {:.1f}\">{}</path>\n",
          Stroke(share), queries.middles[i], kBottom + 2, keys.middles[j],
          kTop + 6, Hint(map.rows[i], map.columns[j], share));
    }
  }
  return {std::move(body), std::max(keys.width, queries.width), kBottom + 34};
}

// "−2", "0", "+1"
std::string Places(size_t from, size_t to) {
  if (from == to) return "0";
  return to < from ? fmt::format("−{}", from - to)
                   : fmt::format("+{}", to - from);
}

// One row of DrawLooks; its height.
double DrawLook(const HeatMap& map, size_t row, const TokenLine& line,
                const EvenColumns& columns, double y, std::string& body) {
  const size_t n = map.columns.size(), from = *map.query;
  const double* values = &map.values[row * n];
  double reach = 16;
  for (size_t j = 0; j < n; ++j) {
    if (!(values[j] >= kLeastShare)) continue;
    reach = std::max(reach,
                     ArcHeight(std::abs(line.middles[from] - line.middles[j])));
  }
  const double top = y + reach + 6;
  for (size_t j = 0; j < n; ++j) {
    if (!(values[j] >= kLeastShare)) continue;
    body += Arc(line.middles[from], line.middles[j], top, -1, values[j],
                Hint(map.columns[from], map.columns[j], values[j]));
  }
  const double half = WidthOf(line.labels[from]) / 2 + 5;
  body += fmt::format(
      "<rect class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
      "height=\"20\" rx=\"4\"/>\n",
      line.middles[from] - half, top + 4, 2 * half);
  body += line.Draw(top + 18);
  HeatMap one{"", {map.columns[from]}, map.columns, {values, values + n}};
  MapLayout layout;
  layout.labels = false;
  layout.cell = columns.pitch;
  layout.row_height = 28;
  const Drawing cells = DrawMapSvg(one, layout);
  body += Placed(columns.left, top + 30, cells);
  for (size_t j = 0; j < n; ++j) {
    body += SvgText(line.middles[j], top + 30 + cells.height + 14,
                    Places(from, j), "class=\"soft num\"");
  }
  if (map.rows[row] != map.columns[from]) {
    body += SvgText(columns.left - 10, top + 30 + cells.height / 2 + 4,
                    map.rows[row], "text-anchor=\"end\"");
  }
  return top + 30 + cells.height + 24 - y;
}

}  // namespace

Drawing DrawArcs(const HeatMap& map,
                 const std::optional<EvenColumns>& columns) {
  return map.rows == map.columns ? OneLine(map, columns) : TwoLines(map);
}

Drawing DrawLooks(const HeatMap& map) {
  double label = 0, pitch = 56;
  for (const std::string& row : map.rows) {
    if (row != map.columns[*map.query]) label = std::max(label, WidthOf(row));
  }
  for (const std::string& column : map.columns) {
    pitch = std::max(pitch, WidthOf(Shorten(column, kLongest)) + 16);
  }
  const EvenColumns columns{kMargin + (label > 0 ? label + 12 : 0), pitch};
  const TokenLine line(map.columns, columns);
  std::string body;
  double y = 0;
  for (size_t row = 0; row < map.rows.size(); ++row) {
    y += DrawLook(map, row, line, columns, y, body);
  }
  return {std::move(body), line.width, y + 8};
}

}  // namespace headwise
