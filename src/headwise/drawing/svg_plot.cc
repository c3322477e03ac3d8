// Line plots: axes, ticks, one mark and one dash per series. Door: svg.h.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "headwise/drawing/numbers.h"
#include "headwise/drawing/svg.h"

namespace headwise {
namespace {

constexpr double kMargin = 20;
// Points of a series that are marked one by one; more would be a band.
constexpr size_t kMostMarks = 48;
constexpr double kWidth = 640, kLeft = 66, kTop = 76, kHeight = 250;

// At powers of ten, every k-th so that at most eight remain.
std::vector<double> LogTicks(double low, double high) {
  std::vector<double> ticks;
  const double first = std::ceil(low - 1e-9);
  const double last = std::floor(high + 1e-9);
  const double step = std::max(1.0, std::ceil((last - first) / 7));
  for (double t = first; t <= last; t += step) ticks.push_back(t);
  return ticks;
}

// One axis: values (or their log10) from low to high, drawn from begin to end.
struct Range {
  double low, high;
  bool log;
  double begin, end;

  double At(double value) const {
    return begin + (value - low) / (high - low) * (end - begin);
  }
  double Coordinate(double value) const {
    return At(log ? std::log10(value) : value);
  }
};

Range Fit(const LinePlot& plot, bool vertical, double begin, double end) {
  const bool log = vertical ? plot.log_y : plot.log_x;
  auto [low, high] = ExtentOf(plot, vertical);
  // A vertical axis begins at 0 where the values come near it.
  if (vertical && !log && low > 0 && low < high / 2) low = 0;
  const double room = high > low ? (high - low) * 0.04 : 0.5;
  if (vertical || high == low) {
    if (low != 0) low -= room;
    high += room;
  }
  return {low, high, log, begin, end};
}

std::string TickLabel(double value, bool log) {
  if (!log) return PlainNumber(value);
  const double number = std::pow(10, value);
  return number >= 0.01 && number < 1e5 ? PlainNumber(number)
                                        : fmt::format("1e{:.0f}", value);
}

std::string Mark(size_t series, double x, double y) {
  switch (series % 4) {
    case 0:
      return fmt::format(
          "<circle class=\"s0\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.6\"/>\n", x,
          y);
    case 1:  // hollow and larger, to show where it lies over another series
      return fmt::format(
          "<rect class=\"s1 hollow\" x=\"{:.1f}\" y=\"{:.1f}\" "
          "width=\"10\" height=\"10\"/>\n",
          x - 5, y - 5);
    case 2:
      return fmt::format(
          "<path class=\"s2\" d=\"M{:.1f} {:.1f}l4.5 8h-9z\"/>\n", x, y - 5);
    default:
      return fmt::format(
          "<path class=\"s3\" d=\"M{:.1f} {:.1f}l4.5 4.5l-4.5 4.5l-4.5 "
          "-4.5z\"/>\n",
          x, y - 4.5);
  }
}

std::string DrawAxes(const LinePlot& plot, const Range& x, const Range& y) {
  std::string body;
  for (double tick : y.log ? LogTicks(y.low, y.high) : Ticks(y.low, y.high)) {
    body += fmt::format("<path class=\"rule\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n",
                        x.begin, y.At(tick), x.end);
    body += SvgText(x.begin - 8, y.At(tick) + 4, TickLabel(tick, y.log),
                    "class=\"soft\" text-anchor=\"end\"");
  }
  const std::string_view centred = "class=\"soft\" text-anchor=\"middle\"";
  if (x.log) {
    // Doublings: head counts are powers of two.
    for (double v = std::pow(10, x.low); v <= std::pow(10, x.high) * 1.001;
         v *= 2) {
      body += SvgText(x.Coordinate(v), y.begin + 18, fmt::format("{:.0f}", v),
                      centred);
    }
  } else {
    for (double tick : Ticks(x.low, x.high)) {
      body +=
          SvgText(x.At(tick), y.begin + 18, TickLabel(tick, false), centred);
    }
  }
  body += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n",
                      x.begin, y.begin, x.end);
  body += SvgText((x.begin + x.end) / 2, y.begin + 38, plot.x_label,
                  "text-anchor=\"middle\"");
  body += SvgText(kMargin, y.end - 14, plot.y_label);
  return body;
}

}  // namespace

Drawing DrawPlotSvg(const LinePlot& plot) {
  constexpr const char* kDashes[] = {"none", "7 4", "2 3", "9 3 2 3"};
  const Range x = Fit(plot, false, kLeft, kWidth - kMargin - 10);
  const Range y = Fit(plot, true, kTop + kHeight, kTop);
  std::string body =
      SvgText(kMargin, kMargin + 6, plot.title, "class=\"title\"");
  body += DrawAxes(plot, x, y);
  double legend = y.begin + 66;
  for (size_t s = 0; s < plot.series.size(); ++s) {
    const Series& series = plot.series[s];
    std::string points, marks;
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (y.log && !(series.y[i] > 0)) continue;
      const double px = x.Coordinate(series.x[i]);
      const double py = y.Coordinate(series.y[i]);
      points += fmt::format("{:.1f},{:.1f} ", px, py);
      marks += Mark(s, px, py);
    }
    constexpr const char* kLine =
        "<polyline class=\"s{}\" stroke-dasharray=\"{}\" points=\"{}\"/>\n";
    body += fmt::format(kLine, s % 4, kDashes[s % 4], points);
    body += fmt::format(
        kLine, s % 4, kDashes[s % 4],
        fmt::format("{0},{2} {1},{2}", kLeft - 8, kLeft + 20, legend - 4));
    if (series.x.size() <= kMostMarks) {
      body += marks + Mark(s, kLeft + 6, legend - 4);
    }
    body += SvgText(kLeft + 28, legend, series.name);
    legend += 20;
  }
  return {std::move(body), kWidth, legend + kMargin - 20};
}

}  // namespace headwise
