// Drawing heads in training. Door: training_charts.h.
#include "headwise/api/training_charts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "headwise/base/atomic_file.h"
#include "headwise/drawing/svg.h"
#include "headwise/drawing/text.h"

namespace headwise {
namespace {

constexpr size_t kMostColumns = 32;
constexpr double kMargin = 20, kGap = 36;
constexpr double kPlotWidth = 640;               // as lines are drawn
constexpr double kCells = 400, kRowHeight = 14;  // of a map
constexpr double kTop = 46;                      // of its cells
// Shares are drawn on a scale of at least this, so that noise stays faint.
constexpr double kLeastScale = 0.1;

const LifePanel kPanels[] = {
    {"previous", "Previous token", "attention on the token before"},
    {"induction", "Induction",
     "on random repeats, attention on what came next before"},
    {"entropy", "Evenness", "entropy, 1 for all that it sees alike"},
    {"importance", "Importance", "nats, |∂loss / ∂gate|", false}};

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

// The names of the rows, and steps below the columns: as many as fit.
std::string DrawLabels(const HeatMap& map, double left, double cell) {
  std::string body;
  const double height = kRowHeight * static_cast<double>(map.rows.size());
  for (size_t h = 0; h < map.rows.size(); ++h) {
    body +=
        SvgText(left - 7, kTop + kRowHeight * (static_cast<double>(h) + .5) + 4,
                map.rows[h], "text-anchor=\"end\" style=\"font-size:11px\"");
  }
  const double widest = 7.0 * DisplayWidth(map.columns.back()) + 8;
  const auto every = static_cast<size_t>(std::ceil(widest / cell));
  for (size_t c = 0; c < map.columns.size(); ++c) {
    const bool last = c + 1 == map.columns.size();
    const bool beside_last = map.columns.size() - c <= every;
    if (!last && (c % every != 0 || beside_last)) continue;
    body +=
        SvgText(left + cell * (static_cast<double>(c) + .5), kTop + height + 15,
                map.columns[c], "class=\"soft\" text-anchor=\"middle\"");
  }
  return body + SvgText(left - 7, kTop + height + 15, "step",
                        "class=\"soft\" text-anchor=\"end\"");
}

// One series of the heads that have it, on the scale of its largest value.
Drawing DrawPanel(const LifePanel& panel,
                  const std::vector<const LifeMoment*>& columns) {
  HeatMap map;
  double most = 0;
  for (const LifeMoment* moment : columns) {
    map.columns.push_back(std::to_string(moment->step));
    for (const double value : moment->values.at(panel.series)) {
      if (std::isfinite(value)) most = std::max(most, value);
    }
  }
  const LifeMoment& last = *columns.back();
  for (size_t h = 0; h < last.heads.size(); ++h) {
    if (!std::isfinite(last.values.at(panel.series)[h])) continue;
    map.rows.push_back(last.heads[h]);
    for (const LifeMoment* moment : columns) {
      const double value = moment->values.at(panel.series)[h];
      map.values.push_back(std::isfinite(value)
                               ? value
                               : std::numeric_limits<double>::quiet_NaN());
    }
  }
  const bool share = panel.share;
  MapLayout layout;
  layout.labels = false;
  layout.numbers = false;
  layout.row_height = kRowHeight;
  layout.full_scale =
      share ? std::max(most, kLeastScale) : std::max(most, 1e-12);
  layout.cell = kCells / static_cast<double>(columns.size());
  layout.cell = std::clamp(layout.cell, kRowHeight, 40.0);
  double left = 30;
  for (const std::string& row : map.rows) {
    left = std::max(left, 7.0 * DisplayWidth(row) + 10);
  }
  const Drawing cells = DrawMapSvg(map, layout);
  const Drawing scale =
      DrawScale(share ? Share(layout.full_scale) : fmt::format("{:.2g}", most),
                panel.meaning);
  std::string body = SvgText(0, 14, panel.title, "class=\"title\"");
  body += Placed(0, 24, scale);
  body += Placed(left, kTop, cells);
  body += DrawLabels(map, left, layout.cell);
  return {std::move(body), std::max(left + cells.width, scale.width),
          kTop + cells.height + 24};
}

// A series can be empty of numbers: decoders that read a source have no random
// repeats, models without a language head no loss.
bool Applies(const std::vector<LifeMoment>& life, const std::string& series) {
  const std::vector<double>& last = life.back().values.at(series);
  return std::any_of(last.begin(), last.end(),
                     [](double value) { return std::isfinite(value); });
}

Drawing DrawStrongest(const std::vector<LifeMoment>& life) {
  LinePlot plot;
  plot.title = "The strongest head of each kind";
  plot.x_label = "step";
  plot.y_label = "share of attention (induction: on random repeats)";
  for (const auto& [series, name] : {std::pair("previous", "previous token"),
                                     std::pair("induction", "induction")}) {
    if (Applies(life, series)) {
      plot.series.push_back(LifeOfStrongest(life, series, name));
    }
  }
  return DrawSvg(plot);
}

}  // namespace

Series LifeOfStrongest(const std::vector<LifeMoment>& life,
                       const std::string& series, const std::string& name) {
  const std::vector<double>& last = life.back().values.at(series);
  size_t head = 0;
  for (size_t h = 0; h < last.size(); ++h) {
    if (last[h] > last[head] || !std::isfinite(last[head])) head = h;
  }
  Series line{fmt::format("{}: head {}, {} at the end", name,
                          life.back().heads[head], Share(last[head])),
              {},
              {}};
  for (const LifeMoment& moment : life) {
    const double value = moment.values.at(series)[head];
    if (!std::isfinite(value)) continue;
    line.x.push_back(static_cast<double>(moment.step));
    line.y.push_back(value);
  }
  return line;
}

void WriteLifePicture(const std::filesystem::path& file, LifePicture picture,
                      const std::vector<LifeMoment>& life) {
  const std::vector<const LifeMoment*> columns = Columns(life);
  Drawing whole = std::move(picture.lines);
  double x = kMargin, y = whole.height + kMargin, row = 0;
  whole.width = kPlotWidth;
  for (const LifePanel& panel : picture.panels) {
    if (!Applies(life, panel.series)) continue;
    const Drawing one = DrawPanel(panel, columns);
    const bool second = x > kMargin;
    whole.body += Placed(x, y, one);
    whole.width = std::max(whole.width, x + one.width + kMargin);
    row = std::max(row, one.height);
    whole.height = y + row + kGap / 2;
    x = second ? kMargin : x + one.width + kGap;
    if (second) {
      y = whole.height;
      row = 0;
    }
  }
  WriteFileAtomically(file,
                      SvgDocument(whole, picture.title, picture.description));
}

void WriteLifeChart(const std::filesystem::path& file,
                    const std::vector<LifeMoment>& life) {
  WriteLifePicture(
      file,
      {"A head's life",
       "What every head does during training. Lines: the strongest heads by "
       "step. Maps: heads in rows, steps in columns.",
       DrawStrongest(life),
       {std::begin(kPanels), std::end(kPanels)}},
      life);
}

}  // namespace headwise
