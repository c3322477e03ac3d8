// The figure of a comparison: sets of heads side by side, a map of each head.
// Door: compare_report.h.
#include <fmt/core.h>

#include <algorithm>

#include "headwise/drawing/compare_report.h"

namespace headwise {
namespace {

constexpr double kMargin = 24;
constexpr double kTop = 74;  // below the headings
constexpr double kBetween = 56;

// Small maps in rows of at most four.
Drawing DrawGrid(const Comparison& comparison, const ComparedHeads& set,
                 double side) {
  constexpr double kGap = 16, kCaption = 20;
  const int64_t columns = std::min<int64_t>(4, set.heads);
  MapLayout layout;
  layout.cell = side / static_cast<double>(set.tokens.size());
  layout.labels = layout.numbers = layout.hints = false;
  layout.full_scale = comparison.largest;
  Drawing grid;
  for (int64_t h = 0; h < set.heads; ++h) {
    const double x = static_cast<double>(h % columns) * (side + kGap);
    const int64_t row = h / columns;
    const double y = static_cast<double>(row) * (side + kGap + kCaption);
    grid.body += SvgText(x, y + 13, "head " + HeadName(comparison, set, h),
                         "class=\"soft\"");
    const Drawing map = DrawMapSvg(WordMap(set, set.maps[h].weights), layout);
    grid.body += Placed(x, y + kCaption, map);
    grid.width = std::max(grid.width, x + side);
    grid.height = std::max(grid.height, y + side + kCaption);
  }
  return grid;
}

// The one map of a head alone is large.
Drawing DrawSet(const Comparison& comparison, const ComparedHeads& set) {
  if (set.heads > 1) return DrawGrid(comparison, set, 120);
  MapLayout layout;
  layout.cell =
      std::clamp(280 / static_cast<double>(set.tokens.size()), 6.0, 40.0);
  layout.numbers = layout.cell >= 30;
  layout.labels = layout.cell >= 12;
  layout.full_scale = comparison.largest;
  return DrawMapSvg(WordMap(set, set.average), layout);
}

std::string Subtitle(const ComparedHeads& set) {
  if (set.heads == 1) return "one distribution per word";
  return fmt::format("{} distributions per word, worth {:.1f} distinct ones",
                     set.heads, set.distinct);
}

// Room for the headings of a set, at the widths of their letters.
double HeadingWidth(const ComparedHeads& set) {
  return std::max(8.5 * DisplayWidth(LayerName(set)),
                  6.6 * DisplayWidth(Subtitle(set)));
}

std::string Footer(const Comparison& comparison) {
  std::string lost;
  for (const ComparedHeads& set : comparison.sets) {
    if (set.heads == 1) continue;
    const bool first = lost.empty();
    lost += fmt::format("{}the {} {}{:.2f}", first ? "Averaging " : ", ",
                        SetName(set), first ? "loses " : "", set.lost);
  }
  if (!lost.empty()) lost += " nats per word. ";
  const size_t sets = comparison.sets.size();
  const std::string weights =
      EqualWeights(comparison) ? fmt::format("{} {} weights. ",
                                             sets == 1   ? "The layer has"
                                             : sets == 2 ? "Both layers have"
                                                         : "All layers have",
                                             comparison.sets.back().parameters)
                               : "";
  return fmt::format("Rows look at columns. {}{}{} weights.", weights, lost,
                     comparison.trained ? "Trained" : "Untrained");
}

// "one head beside 2 heads beside 8 heads"
std::string Names(const Comparison& comparison, std::string_view between) {
  std::string names;
  for (const ComparedHeads& set : comparison.sets) {
    if (!names.empty()) names += between;
    names += SetName(set);
  }
  return names;
}

}  // namespace

std::string CompareSvg(const Comparison& comparison) {
  Drawing drawing;
  double bottom = kTop, end = 0;
  for (const ComparedHeads& set : comparison.sets) {
    const double x = end == 0 ? kMargin : end + kBetween;
    const Drawing maps = DrawSet(comparison, set);
    drawing.body += SvgText(x, 32, Capital(LayerName(set)), "class=\"title\"");
    drawing.body += SvgText(x, 52, Subtitle(set), "class=\"soft\"");
    drawing.body += Placed(x, kTop, maps);
    end = x + std::max(maps.width, HeadingWidth(set));
    bottom = std::max(bottom, kTop + maps.height);
  }
  drawing.body +=
      SvgText(kMargin, bottom + 34, Footer(comparison), "class=\"soft\"");
  drawing.width = std::max(end, 640.0) + kMargin;
  drawing.height = bottom + 34 + kMargin;
  return SvgDocument(
      drawing, Names(comparison, " beside "),
      fmt::format("Attention of each word of \"{}\" to every other, from left "
                  "to right: {}. {}",
                  comparison.sentence, Names(comparison, ", "),
                  comparison.about));
}

}  // namespace headwise
