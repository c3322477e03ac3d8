// Text in terminal columns. Door: text.h.
#include "headwise/drawing/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace headwise {
namespace {

struct Glyph {
  std::string_view bytes;
  uint32_t code = 0;  // the byte itself where it begins no character
  bool shown = true;  // as it is; else written out
};

int WidthOf(uint32_t c) {
  const bool combining = (c >= 0x300 && c <= 0x36f) || c == 0x200d ||
                         (c >= 0x20d0 && c <= 0x20ff) ||
                         (c >= 0xfe00 && c <= 0xfe0f);
  if (combining) return 0;
  const bool wide =
      (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) ||
      (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) ||
      (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
      (c >= 0x1f300 && c <= 0x1faff) || c >= 0x20000;
  return wide ? 2 : 1;
}

// Characters that act on a terminal instead of being seen, and those that
// turn the direction of what follows.
bool Acts(uint32_t c) {
  const bool control =
      (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
  const bool turns =
      (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  return control || turns;
}

// ⟨1b⟩
std::string WrittenOut(uint32_t code) { return fmt::format("⟨{:02x}⟩", code); }

int WidthOf(const Glyph& glyph) {
  if (glyph.shown) return WidthOf(glyph.code);
  return 2 + static_cast<int>(fmt::formatted_size("{:02x}", glyph.code));
}

void Append(const Glyph& glyph, std::string& text) {
  if (glyph.shown) {
    text += glyph.bytes;
  } else {
    text += WrittenOut(glyph.code);
  }
}

// The first character of non-empty `text`; a byte that begins none stands
// for itself.
Glyph First(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xc0 ? 0
                        : lead < 0xe0 ? 2
                        : lead < 0xf0 ? 3
                        : lead < 0xf8 ? 4
                                      : 0;
  const Glyph byte = {text.substr(0, 1), lead, false};
  if (length == 0 || length > text.size()) return byte;
  uint32_t code = length == 1 ? lead : lead & (0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return byte;
    code = code << 6 | (next & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[length] || surrogate || code > 0x10ffff) return byte;
  return {text.substr(0, length), code, !Acts(code)};
}

// Bytes of the ANSI colour that `text` begins with; 0: none.
size_t ColorBytes(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;", 2);
  return end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

// `text` by its characters, as append(glyph, out) writes them.
template <typename Write>
std::string Rewritten(std::string_view text, const Write& append) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Glyph glyph = First(text);
    append(glyph, out);
    text.remove_prefix(glyph.bytes.size());
  }
  return out;
}

std::string Ansi(const Console& console, const char* code,
                 std::string_view text) {
  if (!console.color) return Visible(text);
  return fmt::format("\033[{}m{}\033[0m", code, Visible(text));
}

std::string Spaces(int count) {
  return std::string(static_cast<size_t>(std::max(0, count)), ' ');
}

}  // namespace

std::string Visible(std::string_view text) { return Rewritten(text, Append); }

std::string VisibleName(std::string_view name) {
  return Rewritten(name, [](Glyph glyph, std::string& out) {
    if (glyph.code < 0x20) glyph.shown = false;
    Append(glyph, out);
  });
}

std::string VisibleDrawing(std::string_view drawing) {
  std::string out;
  while (!drawing.empty()) {
    const size_t color = ColorBytes(drawing);
    const size_t next = std::min(drawing.find('\033', 1), drawing.size());
    out += drawing.substr(0, color);
    out += Visible(drawing.substr(color, next - color));
    drawing.remove_prefix(next);
  }
  return out;
}

std::string VisibleJson(std::string_view json) {
  return Rewritten(json, [](const Glyph& glyph, std::string& out) {
    const bool whole = glyph.code < 0x80 || glyph.bytes.size() > 1;
    if (glyph.shown) {
      out += glyph.bytes;
    } else {
      out += whole ? fmt::format("\\u{:04x}", glyph.code) : "\\ufffd";
    }
  });
}

size_t CharacterBytes(std::string_view text) {
  const Glyph glyph = First(text);
  const size_t size = glyph.bytes.size();
  return size == 1 && glyph.code >= 0x80 ? 0 : size;
}

int DisplayWidth(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Glyph glyph = First(text);
    width += WidthOf(glyph);
    text.remove_prefix(glyph.bytes.size());
  }
  return width;
}

std::string Shorten(std::string_view text, int width) {
  if (DisplayWidth(text) <= width) return Visible(text);
  std::string cut;
  int used = 0;
  while (!text.empty()) {
    const Glyph glyph = First(text);
    if (used + WidthOf(glyph) > width - 1) break;
    used += WidthOf(glyph);
    Append(glyph, cut);
    text.remove_prefix(glyph.bytes.size());
  }
  return width > 0 ? cut + "…" : "";
}

std::string PadRight(std::string_view text, int width) {
  const std::string cut = Shorten(text, width);
  return cut + Spaces(width - DisplayWidth(cut));
}

std::string PadLeft(std::string_view text, int width) {
  const std::string cut = Shorten(text, width);
  return Spaces(width - DisplayWidth(cut)) + cut;
}

std::string Wrap(std::string_view text, int width, int indent) {
  const std::string margin = Spaces(indent);
  std::string out = margin;
  int used = indent;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    const int length = DisplayWidth(word);
    if (used > indent && used + 1 + length > width) {
      out += '\n' + margin;
      used = indent;
    }
    if (used > indent) {
      out += ' ';
      ++used;
    }
    out += Visible(word);
    used += length;
    if (space == std::string_view::npos) break;
    text.remove_prefix(space + 1);
  }
  return out + '\n';
}

std::string Capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] -= 'a' - 'A';
  return text;
}

std::string Counted(int64_t count, std::string_view noun) {
  return std::to_string(count) + ' ' + std::string(noun) +
         (count == 1 ? "" : "s");
}

std::string AndList(std::span<const std::string> items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  return text;
}

std::string Share(double value) {
  if (value == 0) return "0";
  if (value >= 0.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value).substr(1);
}

std::string Duration(double seconds) {
  constexpr double kHour = 3600, kDay = 24 * kHour, kYear = 365 * kDay;
  if (!(seconds > 0)) seconds = 0;
  if (seconds < 60) return fmt::format("{:.0f} s", std::ceil(seconds));
  const double minutes = std::ceil(seconds / 60);
  if (minutes < 60) return fmt::format("{:.0f} min", minutes);
  if (seconds < 100 * kHour) {
    return fmt::format("{:.0f} h {:.0f} min", std::floor(minutes / 60),
                       std::fmod(minutes, 60));
  }
  if (seconds < 2 * kYear) {
    return fmt::format("{:.0f} days", std::ceil(seconds / kDay));
  }
  return fmt::format("{:.2g} years", seconds / kYear);
}

const char* Bar(double value, double largest) {
  constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (!(value > 0) || !(largest > 0)) return " ";
  const double level = std::ceil(std::min(1.0, value / largest) * 8);
  return kBars[static_cast<int>(level) - 1];
}

std::string Bold(const Console& console, std::string_view text) {
  return Ansi(console, "1", text);
}
std::string Dim(const Console& console, std::string_view text) {
  return Ansi(console, "2", text);
}
std::string Green(const Console& console, std::string_view text) {
  return Ansi(console, "32", text);
}
std::string Red(const Console& console, std::string_view text) {
  return Ansi(console, "31", text);
}

}  // namespace headwise
