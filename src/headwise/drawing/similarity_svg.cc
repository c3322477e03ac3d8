// Door: pictures.h.
#include "headwise/drawing/pictures.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "headwise/drawing/numbers.h"
#include "headwise/drawing/svg.h"
#include "headwise/drawing/text.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace {

constexpr double kMargin = 24;
constexpr double kTop = 84;
constexpr double kSide = 460;  // of each of the two parts
constexpr double kAxis = 44;   // room for an axis beside them

struct Point {
  double x = 0, y = 0;
};

// Points of the map in a square of kSide, one scale for both axes.
struct Layout {
  std::vector<Point> points;
  Point zero;
  double scale = 1;  // of a distance of 1
};

Layout Fit(const Matrix& map) {
  Point low{1e300, 1e300}, high{-1e300, -1e300};
  for (int64_t i = 0; i < map.rows; ++i) {
    low = {std::min(low.x, map(i, 0)), std::min(low.y, map(i, 1))};
    high = {std::max(high.x, map(i, 0)), std::max(high.y, map(i, 1))};
  }
  constexpr double kInset = 26;
  const double extent = std::max({high.x - low.x, high.y - low.y, 1e-6});
  const double scale = (kSide - 2 * kInset) / extent;
  Layout placed;
  placed.scale = scale;
  placed.zero = {kSide / 2 - scale * (low.x + high.x) / 2,
                 kSide / 2 + scale * (low.y + high.y) / 2};
  for (int64_t i = 0; i < map.rows; ++i) {
    placed.points.push_back(
        {placed.zero.x + scale * map(i, 0), placed.zero.y - scale * map(i, 1)});
  }
  return placed;
}

// Ticks along the bottom and the left of the map, and what they count.
std::string DrawAxes(const Layout& placed) {
  std::string body;
  for (const bool upright : {false, true}) {
    const double zero = upright ? placed.zero.y : placed.zero.x;
    const double low = -zero / placed.scale, span = kSide / placed.scale;
    for (const double tick : Ticks(low, low + span)) {
      const double at = zero + tick * placed.scale;
      const double value = upright && tick != 0 ? -tick : tick;
      const std::string label =
          value < 0 ? fmt::format("−{:g}", -value) : fmt::format("{:g}", value);
      body +=
          upright
              ? fmt::format("<path class=\"axis\" d=\"M-5 {:.1f}H0\"/>\n", at) +
                    SvgText(-8, at + 4, label,
                            "class=\"soft\" text-anchor=\"end\"")
              : fmt::format("<path class=\"axis\" d=\"M{:.1f} {}v5\"/>\n", at,
                            kSide) +
                    SvgText(at, kSide + 18, label,
                            "class=\"soft\" text-anchor=\"middle\"");
    }
  }
  body +=
      SvgText(kSide / 2, kSide + 38, "first direction, in Hellinger distance",
              "text-anchor=\"middle\"");
  body += SvgText(0, 0, "second direction",
                  fmt::format("text-anchor=\"middle\" transform=\"translate("
                              "{} {}) rotate(-90)\"",
                              -kAxis, kSide / 2));
  return body;
}

// Members of groups of at least two, by group.
std::map<int64_t, std::vector<size_t>> Groups(const HeadSimilarity& s) {
  std::map<int64_t, std::vector<size_t>> groups;
  for (size_t i = 0; i < s.heads.size(); ++i) {
    groups[s.group[i]].push_back(i);
  }
  std::erase_if(groups, [](const auto& g) { return g.second.size() < 2; });
  return groups;
}

// Where a label stands: its left or right end, whichever is at the point.
struct Label {
  double x = 0, y = 0;  // of the base line
  bool left = false;    // of its point
};

// A place beside, above or below each point where its label covers neither
// points nor other labels; none where there is no such place.
std::vector<std::optional<Label>> PlaceLabels(
    const std::vector<Point>& points, const std::vector<std::string>& names) {
  constexpr double kWide = 6, kHigh = 10, kRadius = 4.5;
  struct Box {
    double left, top, right, bottom;
  };
  std::vector<Box> taken;
  for (const Point& p : points) {
    taken.push_back(
        {p.x - kRadius, p.y - kRadius, p.x + kRadius, p.y + kRadius});
  }
  constexpr struct {
    double x, y;
    bool left;
  } kPlaces[] = {{7, 4, false},   {-7, 4, true},  {5, -5, false},
                 {5, 13, false},  {-5, -5, true}, {-5, 13, true},
                 {-8, -8, false}, {-8, 16, false}};
  std::vector<std::optional<Label>> labels(points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    const double wide = kWide * DisplayWidth(names[i]);
    for (const auto& place : kPlaces) {
      const Label label{points[i].x + place.x, points[i].y + place.y,
                        place.left};
      const double left = place.left ? label.x - wide : label.x;
      const Box box{left, label.y - kHigh + 2, left + wide, label.y + 1};
      const bool free =
          box.left > 2 && box.right < kSide - 2 &&
          std::none_of(taken.begin(), taken.end(), [&](const Box& other) {
            return box.left < other.right && other.left < box.right &&
                   box.top < other.bottom && other.top < box.bottom;
          });
      if (!free) continue;
      labels[i] = label;
      taken.push_back(box);
      break;
    }
  }
  return labels;
}

Drawing DrawMap(const HeadSimilarity& s) {
  const Layout placed = Fit(FromTensor(s.map));
  const std::vector<Point>& points = placed.points;
  std::string body = fmt::format(
      "<rect class=\"rule\" width=\"{0}\" height=\"{0}\" rx=\"4\"/>\n", kSide);
  body += DrawAxes(placed);
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
  std::vector<std::string> names;
  for (const HeadRef& head : s.heads) names.push_back(ToString(head));
  const std::vector<std::optional<Label>> labels = PlaceLabels(points, names);
  for (size_t i = 0; i < points.size(); ++i) {
    body += fmt::format(
        "<circle class=\"s0\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>{}"
        "</title></circle>\n",
        points[i].x, points[i].y, names[i]);
    if (!labels[i]) continue;
    body +=
        SvgText(labels[i]->x, labels[i]->y, names[i],
                labels[i]->left ? "style=\"font-size:10px\" text-anchor=\"end\""
                                : "style=\"font-size:10px\"");
  }
  return {std::move(body), kSide, kSide};
}

// 1 − JSD / ln 2 in the order of the groups. Of heads too many to name each,
// every so many are named.
Drawing DrawMatrix(const HeadSimilarity& s) {
  constexpr double kName = 9;  // height of a name
  HeatMap map;
  const Matrix divergence = FromTensor(s.jsd);
  const auto n = static_cast<int64_t>(s.heads.size());
  MapLayout layout;
  layout.label_width = s.heads[n - 1].kind == AttentionKind::kSelf ? 30 : 60;
  const auto count = static_cast<double>(n);
  layout.cell =
      std::max((kSide - layout.label_width) / count, n <= 100 ? kName + .5 : 2);
  const auto every = static_cast<int64_t>(std::ceil(kName / layout.cell));
  for (const int64_t i : s.order) {
    const bool named = static_cast<int64_t>(map.rows.size()) % every == 0;
    map.rows.push_back(named ? ToString(s.heads[i]) : "");
  }
  map.columns = map.rows;
  for (const int64_t i : s.order) {
    for (const int64_t j : s.order) {
      const double jsd = i == j ? 0 : divergence(i, j);
      map.values.push_back(std::isnan(jsd) ? jsd : 1 - jsd / std::log(2.0));
    }
  }
  layout.hints = every == 1 && n <= 64;
  layout.numbers = false;
  layout.label_size = std::min(12.0, std::max(kName, layout.cell - 1));
  return DrawMapSvg(map, layout);
}

// The matrix with its axes' name and its colours below it.
Drawing DrawPairs(const HeadSimilarity& s) {
  Drawing matrix = DrawMatrix(s);
  matrix.body += SvgText(matrix.width / 2, matrix.height + 18,
                         "heads in the order of their groups, on both sides",
                         "text-anchor=\"middle\"");
  const Drawing scale =
      DrawScale("1", "the same attention (1 − JSD / ln 2, mean over rows)");
  matrix.body += Placed(0, matrix.height + 30, scale);
  matrix.width = std::max(matrix.width, scale.width);
  matrix.height += 30 + scale.height;
  return matrix;
}

}  // namespace

std::string SimilaritySvg(const HeadSimilarity& s, std::string_view title) {
  const Drawing matrix = DrawPairs(s), map = DrawMap(s);
  const double left = kMargin + kAxis + 10;
  const double split = left + kSide + 40;
  std::string body = SvgText(kMargin, 30, title, "class=\"title\"");
  body += SvgText(left, 68,
                  "Near heads look alike; lines join groups of like heads",
                  "class=\"soft\"");
  body += SvgText(
      split, 68,
      "All pairs, like heads beside each other; more colour: more alike",
      "class=\"soft\"");
  body += Placed(left, kTop, map) + Placed(split, kTop, matrix);
  const double width = split + std::max(matrix.width, 400.0) + kMargin;
  return SvgDocument({std::move(body), width,
                      kTop + std::max(kSide + kAxis, matrix.height) + kMargin},
                     title,
                     "Left: heads as points, by classical scaling of Hellinger "
                     "distances between their attention. Right: one less the "
                     "Jensen–Shannon divergence of every pair.");
}

}  // namespace headwise
