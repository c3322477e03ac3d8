// Door: similarity_svg.h.
#include "headwise/report/similarity_svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "headwise/report/svg.h"
#include "headwise/report/text.h"

namespace headwise {
namespace {

constexpr double kMargin = 24;
constexpr double kTop = 84;
constexpr double kSide = 460;  // of each of the two parts

struct Point {
  double x = 0, y = 0;
};

// Points of the map in a square of kSide, one scale for both axes.
std::vector<Point> Fit(const Matrix& map) {
  Point low{1e300, 1e300}, high{-1e300, -1e300};
  for (int64_t i = 0; i < map.rows; ++i) {
    low = {std::min(low.x, map(i, 0)), std::min(low.y, map(i, 1))};
    high = {std::max(high.x, map(i, 0)), std::max(high.y, map(i, 1))};
  }
  constexpr double kInset = 26;
  const double extent = std::max({high.x - low.x, high.y - low.y, 1e-12});
  const double scale = (kSide - 2 * kInset) / extent;
  std::vector<Point> points;
  for (int64_t i = 0; i < map.rows; ++i) {
    points.push_back({kSide / 2 + scale * (map(i, 0) - (low.x + high.x) / 2),
                      kSide / 2 + scale * (map(i, 1) - (low.y + high.y) / 2)});
  }
  return points;
}

// Members of groups of at least two, by group.
std::map<int64_t, std::vector<size_t>> Groups(const Similarity& s) {
  std::map<int64_t, std::vector<size_t>> groups;
  for (size_t i = 0; i < s.heads.size(); ++i) {
    groups[s.clusters.group[i]].push_back(i);
  }
  std::erase_if(groups, [](const auto& g) { return g.second.size() < 2; });
  return groups;
}

// Labels give way downwards where they would cover each other; one that would
// stand too far from its point is left out (false).
std::vector<bool> Separate(std::vector<Point>& labels) {
  constexpr double kWide = 26, kHigh = 11, kFar = 24;
  std::vector<size_t> order(labels.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return labels[a].y < labels[b].y; });
  std::vector<bool> kept(labels.size());
  for (size_t i = 0; i < order.size(); ++i) {
    Point label = labels[order[i]];
    for (size_t j = 0; j < i; ++j) {
      const Point& above = labels[order[j]];
      if (kept[order[j]] && std::abs(label.x - above.x) < kWide &&
          std::abs(label.y - above.y) < kHigh) {
        label.y = above.y + kHigh;
      }
    }
    if (label.y - labels[order[i]].y > kFar) continue;
    labels[order[i]] = label;
    kept[order[i]] = true;
  }
  return kept;
}

Drawing DrawMap(const Similarity& s) {
  const std::vector<Point> points = Fit(s.map);
  std::string body = fmt::format(
      "<rect class=\"rule\" width=\"{0}\" height=\"{0}\" rx=\"4\"/>\n", kSide);
  // Groups: lines from their middle to the members.
  for (const auto& [group, members] : Groups(s)) {
    Point middle;
    for (const size_t i : members) {
      middle.x += points[i].x / static_cast<double>(members.size());
      middle.y += points[i].y / static_cast<double>(members.size());
    }
    for (const size_t i : members) {
      body += fmt::format(
          "<path class=\"s1 hollow\" style=\"stroke-opacity:.6\" d=\"M{:.1f} "
          "{:.1f} L{:.1f} {:.1f}\"/>\n",
          middle.x, middle.y, points[i].x, points[i].y);
    }
  }
  std::vector<Point> labels;
  for (const Point& point : points) {
    const bool right = point.x < kSide - 50;
    labels.push_back({point.x + (right ? 7 : -7), point.y + 4});
  }
  const std::vector<bool> labelled = Separate(labels);
  for (size_t i = 0; i < points.size(); ++i) {
    const std::string name = ToString(s.heads[i]);
    body += fmt::format(
        "<circle class=\"s0\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>{}"
        "</title></circle>\n",
        points[i].x, points[i].y, name);
    if (!labelled[i]) continue;
    body += SvgText(labels[i].x, labels[i].y, name,
                    labels[i].x > points[i].x
                        ? "style=\"font-size:10px\""
                        : "style=\"font-size:10px\" text-anchor=\"end\"");
  }
  return {std::move(body), kSide, kSide};
}

// 1 − JSD / ln 2 in the order of the groups.
Drawing DrawMatrix(const Similarity& s) {
  HeatMap map;
  const auto n = static_cast<int64_t>(s.heads.size());
  for (const int64_t i : s.clusters.order) {
    map.rows.push_back(ToString(s.heads[i]));
  }
  map.columns = map.rows;
  for (const int64_t i : s.clusters.order) {
    for (const int64_t j : s.clusters.order) {
      const double jsd = i == j ? 0 : s.jsd(i, j);
      map.values.push_back(std::isnan(jsd) ? 0 : 1 - jsd / std::log(2.0));
    }
  }
  MapLayout layout;
  layout.labels = n <= 40;
  layout.hints = n <= 64;
  layout.numbers = false;
  layout.label_width = s.heads[n - 1].kind == AttentionKind::kSelf ? 36 : 66;
  layout.cell =
      std::max(2.0, (kSide - (layout.labels ? layout.label_width : 0)) /
                        static_cast<double>(n));
  return DrawMapSvg(map, layout);
}

}  // namespace

std::string SimilaritySvg(const Similarity& s, std::string_view title) {
  const Drawing matrix = DrawMatrix(s), map = DrawMap(s);
  const double split = kMargin + kSide + 40;
  std::string body = SvgText(kMargin, 30, title, "class=\"title\"");
  body += SvgText(kMargin, 68,
                  "Near heads look alike; lines join groups of like heads",
                  "class=\"soft\"");
  body += SvgText(
      split, 68,
      "All pairs, like heads beside each other; more colour: more alike",
      "class=\"soft\"");
  body += fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", kMargin,
                      kTop, map.body);
  body += fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", split,
                      kTop, matrix.body);
  const double width = split + std::max(matrix.width, 400.0) + kMargin;
  return SvgDocument(
      {std::move(body), width, kTop + std::max(kSide, matrix.height) + kMargin},
      title,
      "Left: heads as points, by classical scaling of Hellinger "
      "distances between their attention. Right: one less the "
      "Jensen–Shannon divergence of every pair.");
}

}  // namespace headwise
