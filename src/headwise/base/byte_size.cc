// Door: byte_size.h.
#include "headwise/base/byte_size.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <system_error>

namespace headwise {
namespace {

constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

}  // namespace

std::string ByteSize(uint64_t bytes) {
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  // From 1023.95 on a number would be rounded to 1024.0.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::optional<uint64_t> ParseByteSize(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] =
      std::from_chars(text.data(), end, value, std::chars_format::fixed);
  // "nan", "inf" and signs are no amounts.
  if (error != std::errc() || text[0] < '0' || text[0] > '9') return {};
  std::string_view unit(rest, end);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const char* const known : kUnits) {
    constexpr double kMost = 9223372036854775808.0;
    if (unit == known) {
      if (value >= kMost) return {};
      return static_cast<uint64_t>(value);
    }
    value *= 1024;
  }
  return {};
}

}  // namespace headwise
