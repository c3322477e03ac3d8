// Tokens shaded by attention. Door: terminal.h.
#include "headwise/drawing/terminal.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace headwise {
namespace {

constexpr int kIndent = 2;
constexpr double kFaint = 0.14;  // a fiftieth of the largest share

// Six steps of blue on the 256-colour cube, with text that stays readable.
std::string Shaded(const std::string& token, double strength) {
  constexpr int kBackground[] = {17, 18, 19, 20, 27, 33};
  if (strength < kFaint) return token;
  const auto step =
      static_cast<size_t>(std::clamp(std::floor(strength * 6), 0.0, 5.0));
  return fmt::format("\033[48;5;{};38;5;{}m{}\033[0m", kBackground[step],
                     step >= 5 ? 16 : 231, token);
}

std::string Trimmed(std::string line) {
  line.resize(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

}  // namespace

std::string DrawShadedTokens(std::span<const std::string> tokens,
                             std::span<const float> shares, float largest,
                             const Console& console) {
  std::string out, line(kIndent, ' '), bars(kIndent, ' ');
  int used = kIndent;
  auto flush = [&] {
    if (used == kIndent) return;
    out += console.color ? line + '\n' : Trimmed(line);
    if (!console.color && bars.find_first_not_of(' ') != bars.npos) {
      out += Trimmed(bars);
    }
    line.assign(kIndent, ' ');
    bars.assign(kIndent, ' ');
    used = kIndent;
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string token = Shorten(tokens[i], console.width - kIndent - 1);
    const int width = DisplayWidth(token);
    if (used + width + 1 > console.width) flush();
    // The root: beside a sink all else would be invisible.
    const double strength = largest > 0 ? std::sqrt(shares[i] / largest) : 0;
    line += (console.color ? Shaded(token, strength) : token) + ' ';
    for (int c = 0; c < width; ++c)
      bars += strength < kFaint ? " " : Bar(strength, 1);
    bars += ' ';
    used += width + 1;
  }
  flush();
  return out;
}

std::string DrawKeyLists(std::span<const KeyList> lists,
                         const Console& console) {
  int widest = 0;
  for (const KeyList& list : lists) {
    widest = std::max(widest, DisplayWidth(list.query));
  }
  widest = std::min(widest, std::max(8, console.width / 4));
  std::string out;
  for (const KeyList& list : lists) {
    std::string line = "  " + PadRight(list.query, widest) + " →";
    int used = DisplayWidth(line);
    for (size_t i = 0; i < list.keys.size(); ++i) {
      const auto& [key, share] = list.keys[i];
      const std::string entry = fmt::format("{} {} {}", i == 0 ? "" : ",",
                                            Shorten(key, 20), Share(share));
      const int width = DisplayWidth(entry);
      if (used + width > console.width) break;
      line += entry;
      used += width;
    }
    out += line + '\n';
  }
  return out;
}

}  // namespace headwise
