// Rounding, axes and base64. Door: numbers.h.
#include "headwise/drawing/numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace headwise {

double Rounded(double value, int digits) {
  if (!std::isfinite(value)) return value;
  // Through text, so that the shortest form of the result is that text.
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return std::strtod(text, nullptr);
}

Json Number(double value, int digits) {
  if (!std::isfinite(value)) return nullptr;
  return Rounded(value, digits);
}

std::string PlainNumber(double value) {
  const double size = std::abs(value);
  return size >= 1000 && size < 1e6 ? fmt::format("{:.0f}", value)
                                    : fmt::format("{:.3g}", value);
}

void PutInterval(Json& json, double low, double high) {
  if (!std::isfinite(low) || !std::isfinite(high)) return;
  json["low"] = Rounded(low);
  json["high"] = Rounded(high);
}

Extent ExtentOf(const LinePlot& plot, bool vertical) {
  const bool log = vertical ? plot.log_y : plot.log_x;
  Extent extent;
  bool first = true;
  for (const Series& series : plot.series) {
    for (const double value : vertical ? series.y : series.x) {
      if (log && !(value > 0)) continue;
      const double v = log ? std::log10(value) : value;
      extent.low = first ? v : std::min(extent.low, v);
      extent.high = first ? v : std::max(extent.high, v);
      first = false;
    }
  }
  return extent;
}

std::vector<double> Ticks(double low, double high) {
  const double raw = (high - low) / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double ratio = raw / power;
  const double step = power * (ratio < 1.5   ? 1
                               : ratio < 3.5 ? 2
                               : ratio < 7.5 ? 5
                                             : 10);
  std::vector<double> ticks;
  const double end = high + step * 1e-6;
  for (double t = std::ceil(low / step - 1e-9) * step; t <= end; t += step) {
    ticks.push_back(std::abs(t) < step * 1e-9 ? 0 : t);
  }
  return ticks;
}

std::string Bytes(std::span<const float> weights) {
  constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((weights.size() + 2) / 3 * 4);
  for (size_t i = 0; i < weights.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) {
      const float weight = i + k < weights.size() ? weights[i + k] : 0;
      three = three << 8 | static_cast<uint32_t>(std::lround(
                               255 * std::clamp(weight, 0.0f, 1.0f)));
    }
    const size_t left = std::min<size_t>(3, weights.size() - i);
    for (size_t k = 0; k < 4; ++k) {
      text += k <= left ? kDigits[three >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

}  // namespace headwise
