// Drawing heads in training. Door: life_chart.h.
#include "life_chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "headwise/base/atomic_file.h"
#include "headwise/report/svg.h"

namespace headwise {
namespace {

constexpr size_t kMostColumns = 32;
constexpr double kCell = 13, kTitle = 26, kMargin = 20;

// At most kMostColumns moments, the first and the last among them.
std::vector<const LifeMoment*> Columns(const std::vector<LifeMoment>& life) {
  const size_t count = std::min(life.size(), kMostColumns);
  std::vector<const LifeMoment*> columns;
  for (size_t i = 0; i < count; ++i) {
    columns.push_back(
        &life[count == 1 ? 0 : i * (life.size() - 1) / (count - 1)]);
  }
  return columns;
}

// The map of one series; importance is drawn as a share of its largest value.
Drawing DrawSeries(const std::string& series,
                   const std::vector<const LifeMoment*>& columns) {
  HeatMap map;
  map.rows = columns[0]->heads;
  double most = 0;
  for (const LifeMoment* moment : columns) {
    map.columns.push_back(std::to_string(moment->step));
    for (const double value : moment->values.at(series)) {
      if (std::isfinite(value)) most = std::max(most, value);
    }
  }
  const bool share = series == "importance" && most > 0;
  for (size_t h = 0; h < map.rows.size(); ++h) {
    for (const LifeMoment* moment : columns) {
      const double value = moment->values.at(series)[h];
      map.values.push_back(!std::isfinite(value) ? 0
                           : share               ? value / most
                                                 : value);
    }
  }
  MapLayout layout;
  layout.cell = kCell;
  layout.numbers = false;
  layout.label_width = 60;
  Drawing cells = DrawMapSvg(map, layout);
  const std::string title =
      share ? fmt::format("{}, share of {:.2g} nats", series, most) : series;
  return {SvgText(0, 14, title, "class=\"title\"") +
              fmt::format("<g transform=\"translate(0 {})\">\n{}</g>\n", kTitle,
                          cells.body),
          std::max(cells.width, 9.2 * static_cast<double>(title.size())),
          cells.height + kTitle};
}

}  // namespace

void WriteLifeChart(const std::filesystem::path& file,
                    const std::vector<LifeMoment>& life) {
  if (life.empty()) return;
  const std::vector<const LifeMoment*> columns = Columns(life);
  Drawing whole;
  double x = kMargin, y = kMargin;
  int place = 0;
  for (const char* series : kLifeSeries) {
    const Drawing one = DrawSeries(series, columns);
    whole.body += fmt::format(
        "<g transform=\"translate({:.1f} {:.1f})\">\n{}"
        "</g>\n",
        x, y, one.body);
    x += one.width + kMargin;
    whole.width = std::max(whole.width, x);
    whole.height = y + one.height + kMargin;
    if (++place % 2 == 0) {
      x = kMargin;
      y = whole.height;
    }
  }
  WriteFileAtomically(
      file,
      SvgDocument(whole, "A head's life",
                  "What every head does during training: heads in rows, steps "
                  "in columns"));
}

}  // namespace headwise
