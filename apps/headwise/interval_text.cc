// Door: interval_text.h.
#include "interval_text.h"

#include <fmt/core.h>

#include <cmath>

namespace headwise {

std::string ToText(const Interval& interval, bool sign) {
  const auto number = [sign](double value) {
    if (!std::isfinite(value)) return std::string("?");
    return sign ? fmt::format("{:+.4f}", value) : fmt::format("{:.4f}", value);
  };
  return fmt::format("{} [{}, {}]", number(interval.value),
                     number(interval.low), number(interval.high));
}

}  // namespace headwise
