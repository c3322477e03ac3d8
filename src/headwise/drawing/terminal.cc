// Tables and pictures drawn in text. Door: terminal.h.
#include "headwise/drawing/terminal.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <type_traits>

#include "headwise/drawing/numbers.h"

namespace headwise {
namespace {

constexpr int kColumnGap = 2;  // columns between table columns

// Without trailing spaces.
std::string Line(std::string text) {
  const size_t end = text.find_last_not_of(' ');
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text + '\n';
}

// Each row as its first cell and, indented below it, "column: value, …".
std::string DrawBlocks(const StudyTable& table, const Console& console) {
  std::string out;
  for (const std::vector<std::string>& row : table.rows) {
    out += Wrap(row[0], console.width, 2);
    std::string rest;
    for (size_t c = 1; c < row.size(); ++c) {
      if (row[c].empty()) continue;
      if (!rest.empty()) rest += ", ";
      const std::string& name = table.columns[c];
      rest += name.empty() ? row[c] : name + ": " + row[c];
    }
    out += Wrap(rest, console.width, 4);
  }
  return out;
}

// The range of one axis of a line plot, in the units it is drawn in.
struct Axis {
  double low = 0, high = 1;
  bool log = false;

  double At(double value) const {
    const double v = log ? std::log10(value) : value;
    return high > low ? (v - low) / (high - low) : 0.5;
  }
  std::string Label(double part) const {
    const double v = low + part * (high - low);
    return PlainNumber(log ? std::pow(10, v) : v);
  }
};

Axis AxisOf(const LinePlot& plot, bool vertical) {
  const auto [low, high] = ExtentOf(plot, vertical);
  return {low, high, vertical ? plot.log_y : plot.log_x};
}

constexpr int kPlotRows = 12;
constexpr int kAxisLabel = 9;

// Both ends of the axis below a plot, its name between them.
std::string DrawXAxis(const LinePlot& plot, const Axis& x, int columns) {
  std::string rule = std::string(kAxisLabel, ' ') + " └";
  for (int c = 0; c < columns; ++c) rule += "─";
  const std::string left = x.Label(0), right = x.Label(1);
  const int middle = columns - DisplayWidth(left) - DisplayWidth(right);
  const std::string name = Shorten(plot.x_label, std::max(0, middle - 2));
  const int before = std::max(0, (middle - DisplayWidth(name)) / 2);
  const int after = std::max(0, middle - DisplayWidth(name) - before);
  return rule + '\n' + std::string(kAxisLabel + 2, ' ') + left +
         std::string(static_cast<size_t>(before), ' ') + name +
         std::string(static_cast<size_t>(after), ' ') + right + '\n';
}

std::string DrawPlot(const LinePlot& plot, const Console& console) {
  constexpr const char* kMarks[] = {"●", "○", "▲", "△", "■", "□"};
  const int columns = std::clamp(console.width - kAxisLabel - 4, 8, 60);
  const Axis x = AxisOf(plot, false), y = AxisOf(plot, true);
  std::vector<std::vector<const char*>> grid(
      kPlotRows, std::vector<const char*>(static_cast<size_t>(columns), " "));
  std::string legend;
  for (size_t s = 0; s < plot.series.size(); ++s) {
    const Series& series = plot.series[s];
    const char* mark = kMarks[s % std::size(kMarks)];
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (y.log && !(series.y[i] > 0)) continue;
      const auto column = std::lround(x.At(series.x[i]) * (columns - 1));
      const auto row = std::lround((1 - y.At(series.y[i])) * (kPlotRows - 1));
      grid[row][column] = mark;
    }
    legend += Wrap(fmt::format("{} {}", mark, series.name), console.width, 2);
  }
  std::string out = Wrap(plot.y_label, console.width, 2);
  for (int r = 0; r < kPlotRows; ++r) {
    const bool labelled = r % 4 == 0 || r == kPlotRows - 1;
    std::string line =
        PadLeft(labelled ? y.Label(1 - r / (kPlotRows - 1.0)) : "", kAxisLabel);
    line += " │";
    for (const char* cell : grid[r]) line += cell;
    out += Line(line);
  }
  return out + DrawXAxis(plot, x, columns) + legend;
}

std::string DrawMap(const HeatMap& map, const Console& console) {
  int label = 0;
  for (const std::string& row : map.rows) {
    label = std::max(label, DisplayWidth(row));
  }
  label = std::min(label + 4, console.width / 2);
  const size_t columns = map.columns.size();
  const CellRows cells(console, label, columns, 1);
  std::string out = cells.Labels(map.columns);
  for (size_t r = 0; r < map.rows.size(); ++r) {
    out += cells.Row("  " + map.rows[r], {&map.values[r * columns], columns});
  }
  return out;
}

}  // namespace

std::string DrawTable(const StudyTable& table, const Console& console) {
  constexpr int kNarrowestFirst = 24;
  std::vector<int> widths;
  int rest = 2;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    int width = DisplayWidth(table.columns[c]);
    for (const std::vector<std::string>& row : table.rows) {
      width = std::max(width, DisplayWidth(row[c]));
    }
    widths.push_back(width);
    if (c > 0) rest += width + kColumnGap;
  }
  // The first column gives way first, on several lines where it must.
  const int room = console.width - rest;
  if (widths[0] > room && room < kNarrowestFirst) {
    return DrawBlocks(table, console);
  }
  widths[0] = std::min(widths[0], room);
  auto draw = [&](const std::vector<std::string>& row) {
    std::istringstream lines(Wrap(row[0], widths[0]));
    std::string first, more, out;
    std::getline(lines, first);
    out = "  " + PadRight(first, widths[0]);
    for (size_t c = 1; c < row.size(); ++c) {
      out += std::string(kColumnGap, ' ') + PadLeft(row[c], widths[c]);
    }
    out = Line(out);
    while (std::getline(lines, more)) out += "  " + more + '\n';
    return out;
  };
  std::string out = Dim(console, draw(table.columns));
  for (const std::vector<std::string>& row : table.rows) out += draw(row);
  return out;
}

CellRows::CellRows(const Console& console, int label_width, size_t columns,
                   double largest)
    : console_(console),
      label_width_(label_width),
      columns_(columns),
      largest_(largest) {
  const int room = std::max(1, console.width - label_width);
  const int count = static_cast<int>(std::max<size_t>(1, columns));
  cell_ = std::clamp(room / count, 1, 9);
  shown_ = std::min(columns, static_cast<size_t>(room / cell_));
}

std::string CellRows::Labels(const std::vector<std::string>& columns) const {
  std::string line(static_cast<size_t>(label_width_), ' ');
  for (size_t c = 0; c < shown_; ++c) {
    line += PadRight(Shorten(columns[c], std::max(1, cell_ - 1)), cell_);
  }
  return Dim(console_, Line(line));
}

std::string CellRows::Row(std::string_view label,
                          std::span<const double> values) const {
  std::string line = PadRight(Shorten(label, label_width_ - 1), label_width_);
  for (size_t c = 0; c < shown_; ++c) {
    // A space keeps neighbours apart wherever a cell has room for one.
    const int bars = cell_ >= 5 ? 1 : std::max(1, cell_ - 1);
    if (std::isnan(values[c])) {  // what the row cannot see
      line += PadRight("", cell_);
      continue;
    }
    std::string bar;
    for (int i = 0; i < bars; ++i) bar += Bar(values[c], largest_);
    if (console_.color) bar = "\033[36m" + bar + "\033[0m";
    const std::string share = cell_ >= 5 ? Share(values[c]) : "";
    line += bar + PadRight(share, cell_ - bars);
  }
  return Line(line);
}

std::string DrawPicture(const Picture& picture, const Console& console) {
  return std::visit(
      [&](const auto& one) {
        const std::string title = Bold(console, Wrap(one.title, console.width));
        if constexpr (std::is_same_v<std::decay_t<decltype(one)>, HeatMap>) {
          return title + DrawMap(one, console);
        } else {
          return title + DrawPlot(one, console);
        }
      },
      picture);
}

}  // namespace headwise
