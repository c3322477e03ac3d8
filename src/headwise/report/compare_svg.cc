// The figure of a comparison: one big map, then the small ones of many heads.
// Door: compare_report.h.
#include <fmt/core.h>

#include <algorithm>

#include "headwise/report/compare_report.h"

namespace headwise {
namespace {

constexpr double kMargin = 24;
constexpr double kTop = 74;  // below the headings

std::string Place(double x, double y, const Drawing& drawing) {
  return fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n{}</g>\n", x,
                     y, drawing.body);
}

// Small maps in rows of at most four.
Drawing DrawGrid(const Comparison& comparison, const HeadSet& set,
                 double side) {
  constexpr double kGap = 16, kCaption = 20;
  const int64_t columns = std::min<int64_t>(4, set.heads);
  MapLayout layout;
  layout.cell = side / static_cast<double>(comparison.words.size());
  layout.labels = layout.numbers = layout.hints = false;
  layout.full_scale = comparison.largest;
  Drawing grid;
  for (int64_t h = 0; h < set.heads; ++h) {
    const double x = static_cast<double>(h % columns) * (side + kGap);
    const int64_t row = h / columns;
    const double y = static_cast<double>(row) * (side + kGap + kCaption);
    grid.body +=
        SvgText(x, y + 13, "head " + HeadName(comparison, h), "class=\"soft\"");
    const Drawing map =
        DrawMapSvg(WordMap(comparison, set.maps[h].weights), layout);
    grid.body += Place(x, y + kCaption, map);
    grid.width = std::max(grid.width, x + side);
    grid.height = std::max(grid.height, y + side + kCaption);
  }
  return grid;
}

}  // namespace

std::string CompareSvg(const Comparison& comparison) {
  const HeadSet& one = comparison.sets.front();
  const HeadSet& many = comparison.sets.back();
  const auto words = static_cast<double>(comparison.words.size());
  MapLayout layout;
  layout.cell = std::clamp(280 / words, 6.0, 40.0);
  layout.numbers = layout.cell >= 30;
  layout.labels = layout.cell >= 12;
  layout.full_scale = comparison.largest;
  const Drawing left = DrawMapSvg(WordMap(comparison, one.average), layout);
  const double split = kMargin + left.width + 56;
  const Drawing right = DrawGrid(comparison, many, 120);
  const double bottom = kTop + std::max(left.height, right.height);

  std::string body;
  auto heading = [&](double x, const HeadSet& set) {
    body += SvgText(x, 32, Capital(LayerName(set)), "class=\"title\"");
    body += SvgText(
        x, 52,
        set.heads == 1
            ? "one distribution per word"
            : fmt::format("{} distributions per word, worth {:.1f} distinct "
                          "ones",
                          set.heads, set.distinct),
        "class=\"soft\"");
  };
  heading(kMargin, one);
  heading(split, many);
  body += Place(kMargin, kTop, left);
  body += Place(split, kTop, right);
  body += SvgText(
      kMargin, bottom + 34,
      fmt::format(
          "Rows look at columns. Both layers have {} weights. Averaging "
          "the {} loses {:.2f} nats per word. {} weights.",
          many.parameters, HeadsName(many.heads), many.lost,
          comparison.trained ? "Trained" : "Untrained"),
      "class=\"soft\"");
  const Drawing drawing{std::move(body),
                        std::max(split + right.width, 640.0) + kMargin,
                        bottom + 34 + kMargin};
  return SvgDocument(
      drawing,
      fmt::format("{} beside {}", HeadsName(one.heads), HeadsName(many.heads)),
      fmt::format("Attention of each word of \"{}\" to every other: {} on the "
                  "left, {} on the right. {}",
                  comparison.sentence, HeadsName(one.heads),
                  HeadsName(many.heads), comparison.about));
}

}  // namespace headwise
