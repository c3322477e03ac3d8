// Rounding and base64. Door: report_numbers.h.
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
