// Maps and arcs. Door: attention_svg.h.
#include "headwise/report/attention_svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "headwise/report/text.h"

namespace headwise {
namespace {

constexpr double kMargin = 20;
constexpr double kCharacter = 7;
constexpr double kGap = 16;  // between tokens
constexpr double kLeast = 0.05;
constexpr int kLongest = 14;  // characters of a token

// Where the middle of each token stands on a line.
struct TokenLine {
  explicit TokenLine(const std::vector<std::string>& tokens) {
    double x = kMargin;
    for (const std::string& token : tokens) {
      labels.push_back(Shorten(token, kLongest));
      const double size = kCharacter * std::max(2, DisplayWidth(labels.back()));
      middles.push_back(x + size / 2);
      x += size + kGap;
    }
    width = x - kGap + kMargin;
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

std::string Hint(const HeatMap& map, size_t row, size_t column, double share) {
  return fmt::format("<title>{} → {} {}</title>", Escape(map.rows[row]),
                     Escape(map.columns[column]), Share(share));
}

// Height of the tallest arc on either side of the line.
struct Reach {
  double above = 0, below = 0;
};

double ArcHeight(double distance) {
  return std::min(110.0, 10 + distance * 0.35);
}

Drawing OneLine(const HeatMap& map) {
  const TokenLine line(map.rows);
  const size_t n = map.rows.size();
  Reach reach;
  auto each = [&](auto&& use) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        const double share = map.values[i * n + j];
        if (share >= kLeast) use(i, j, share);
      }
    }
  };
  each([&](size_t i, size_t j, double) {
    const double height =
        ArcHeight(std::abs(line.middles[i] - line.middles[j]));
    double& side = j > i ? reach.below : reach.above;
    side = std::max(side, height);
  });
  const double top = reach.above + 14, baseline = top + 14;
  std::string body = line.Draw(baseline);
  each([&](size_t i, size_t j, double share) {
    const double from = line.middles[i], to = line.middles[j];
    const bool ahead = j > i;
    const double y = ahead ? baseline + 6 : top;
    const double sign = ahead ? 1 : -1;
    const double peak = y + sign * ArcHeight(std::abs(from - to)) * 4 / 3;
    // To itself: a small loop above the token.
    body += fmt::format(
        "<path {} d=\"M{:.1f} {:.1f} C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} "
        "{:.1f}\">{}</path>\n",
        Stroke(share), i == j ? from - 5 : from, y,
        i == j ? from - 7 : from + (to - from) * 0.15, i == j ? y - 16 : peak,
        i == j ? to + 7 : to - (to - from) * 0.15, i == j ? y - 16 : peak,
        i == j ? to + 5 : to, y, Hint(map, i, j, share));
    if (i == j) return;
    body += fmt::format(
        "<circle class=\"s0\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" "
        "style=\"stroke:none;fill-opacity:{:.2f}\"/>\n",
        to, y, 1.5 + 1.5 * std::min(1.0, share),
        0.25 + 0.75 * std::min(1.0, share));
  });
  return {std::move(body), line.width, baseline + reach.below + 24};
}

Drawing TwoLines(const HeatMap& map) {
  const TokenLine keys(map.columns), queries(map.rows);
  constexpr double kTop = 16, kBottom = 130;
  std::string body = keys.Draw(kTop) + queries.Draw(kBottom + 16);
  const size_t columns = map.columns.size();
  for (size_t i = 0; i < map.rows.size(); ++i) {
    for (size_t j = 0; j < columns; ++j) {
      const double share = map.values[i * columns + j];
      if (share < kLeast) continue;
      body += fmt::format(
          "<path {} d=\"M{:.1f} {:.1f} L{:.1f} {:.1f}\">{}</path>\n",
          Stroke(share), queries.middles[i], kBottom + 2, keys.middles[j],
          kTop + 6, Hint(map, i, j, share));
    }
  }
  return {std::move(body), std::max(keys.width, queries.width), kBottom + 34};
}

Drawing DrawMap(const HeatMap& map) {
  const size_t most = std::max(map.rows.size(), map.columns.size());
  MapLayout layout;
  layout.labels = most <= kMostLabelled;
  layout.hints = layout.labels;
  layout.cell = std::clamp(560.0 / static_cast<double>(most), 3.0, 40.0);
  if (most <= 6) layout.cell = 56;
  layout.numbers = layout.cell >= 30;
  layout.label_width = 20;
  for (const std::string& row : map.rows) {
    layout.label_width =
        std::max(layout.label_width,
                 kCharacter * std::min(kLongest, DisplayWidth(row)) + 10);
  }
  Drawing cells = DrawMapSvg(map, layout);
  std::string body = SvgText(kMargin, 26, map.title, "class=\"title\"");
  body += fmt::format("<g transform=\"translate({} 40)\">\n{}</g>\n", kMargin,
                      cells.body);
  return {std::move(body),
          std::max(cells.width + 2 * kMargin,
                   9.2 * DisplayWidth(map.title) + 2 * kMargin),
          cells.height + 52};
}

}  // namespace

Drawing DrawArcs(const HeatMap& map) {
  return map.rows == map.columns ? OneLine(map) : TwoLines(map);
}

std::string AttentionSvg(std::span<const HeatMap> maps, std::string_view title,
                         std::string_view note) {
  std::vector<Drawing> parts;
  for (const HeatMap& map : maps) {
    parts.push_back(DrawMap(map));
    if (std::max(map.rows.size(), map.columns.size()) <= kMostLabelled) {
      parts.push_back(DrawArcs(map));
    }
  }
  if (!note.empty()) {
    parts.push_back({SvgText(kMargin, 18, note, "class=\"soft\""),
                     6.2 * DisplayWidth(note) + 2 * kMargin, 32});
  }
  return SvgDocument(StackDrawings(parts), title,
                     "Rows look at columns; fuller cells and stronger arcs "
                     "are larger shares of a row's attention.");
}

}  // namespace headwise
