// Heat maps, and the document around every drawing. Line plots: svg_plot.cc.
// Door: svg.h.
#include "headwise/drawing/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "headwise/drawing/text.h"

namespace headwise {
namespace {

constexpr double kEdge = 20;
constexpr double kTitleHeight = 44;

// Roughly what a character of 12 px sans-serif text takes.
constexpr double kLetter = 6.6;

double LabelWidth(const std::vector<std::string>& labels) {
  int widest = 0;
  for (const std::string& label : labels) {
    widest = std::max(widest, DisplayWidth(label));
  }
  return std::min(kLetter * widest + 10, 190.0);
}

Drawing DrawHeatMap(const HeatMap& map) {
  MapLayout layout;
  layout.label_width = LabelWidth(map.rows);
  layout.cell = map.columns.size() <= 7 ? 72 : 56;  // "duplicate" fits
  const Drawing cells = DrawMapSvg(map, layout);
  std::string body = SvgText(kEdge, kEdge + 6, map.title, "class=\"title\"");
  body += Placed(kEdge, kTitleHeight, cells);
  const double title = 9.2 * DisplayWidth(map.title) + 2 * kEdge;
  return {std::move(body), std::max(title, cells.width + 2 * kEdge),
          cells.height + kTitleHeight + kEdge};
}

}  // namespace

std::string Escape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = CharacterBytes(text);
    const char c = text[0];
    if (length == 0) {
      out += "\uFFFD";
    } else if (length > 1) {
      out += text.substr(0, length);
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c < 0x20 || c == 0x7f ? ' ' : c;
    }
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return out;
}

std::string Placed(double x, double y, const Drawing& drawing) {
  return fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n{}</g>\n", x,
                     y, drawing.body);
}

std::string SvgText(double x, double y, std::string_view text,
                    std::string_view attributes) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}{}>{}</text>\n", x, y,
                     attributes.empty() ? "" : " ", attributes, Escape(text));
}

const char* OnHeat(double strength) {
  // Where black gives way to white differs between light and dark pages.
  return strength > 0.7 ? "on" : strength > 0.5 ? "mid" : "";
}

Drawing DrawMapSvg(const HeatMap& map, const MapLayout& layout) {
  const double left = layout.labels ? layout.label_width : 0;
  // Columns too narrow for their labels have them upright, read from below.
  const double character = kLetter * layout.label_size / 12;
  const bool upright =
      layout.cell < 30 ||
      std::any_of(map.columns.begin(), map.columns.end(),
                  [&](const std::string& label) {
                    return DisplayWidth(label) > layout.cell / character;
                  });
  const double label_height =
      upright ? std::min(LabelWidth(map.columns), layout.label_width) : 22;
  const std::string size =
      layout.label_size == 12
          ? ""
          : fmt::format(" style=\"font-size:{:g}px\"", layout.label_size);
  const double top = layout.labels ? label_height : 0;
  const double cell = layout.cell;
  const double row_height = std::min(cell, layout.row_height);
  const size_t columns = map.columns.size();
  std::string body;
  for (size_t c = 0; layout.labels && c < columns; ++c) {
    const double x = left + (static_cast<double>(c) + 0.5) * cell;
    const double room = upright ? top : cell;
    const std::string label =
        Shorten(map.columns[c], static_cast<int>(room / character));
    body += upright
                ? SvgText(0, 0, label,
                          fmt::format("class=\"soft\" transform=\"translate("
                                      "{:.1f} {:.1f}) rotate(-90)\"{}",
                                      x + layout.label_size / 3, top - 5, size))
                : SvgText(x, top - 7, label,
                          "class=\"soft\" text-anchor=\"middle\"" + size);
  }
  for (size_t r = 0; r < map.rows.size(); ++r) {
    const double y = top + static_cast<double>(r) * row_height;
    if (layout.labels) {
      body += SvgText(left - 8, y + row_height / 2 + layout.label_size / 3,
                      Shorten(map.rows[r], static_cast<int>(left / character)),
                      "text-anchor=\"end\"" + size);
    }
    for (size_t c = 0; c < columns; ++c) {
      const double value = map.values[r * columns + c];
      if (std::isnan(value)) continue;
      const double strength = std::clamp(value / layout.full_scale, 0.0, 1.0);
      const double x = left + static_cast<double>(c) * cell;
      const double gap = cell > 12 ? 0.75 : 0.25;
      const std::string box = fmt::format(
          "x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
          "rx=\"{}\"",
          x + gap, y + gap, cell - 2 * gap, row_height - 2 * gap,
          cell > 12 ? 2 : 0);
      body += fmt::format(
          "<rect class=\"cell\" {0}/><rect class=\"heat\" "
          "fill-opacity=\"{1:.3f}\" {0}>",
          box, strength);
      if (layout.hints) {
        body += fmt::format("<title>{} → {} {}</title>", Escape(map.rows[r]),
                            Escape(map.columns[c]), Share(value));
      }
      body += "</rect>\n";
      if (layout.numbers) {
        body += SvgText(x + cell / 2, y + row_height / 2 + 4, Share(value),
                        fmt::format("class=\"num {}\"", OnHeat(strength)));
      }
    }
  }
  return {std::move(body), left + static_cast<double>(columns) * cell,
          top + static_cast<double>(map.rows.size()) * row_height};
}

Drawing DrawScale(std::string_view full, std::string_view meaning) {
  constexpr int kSteps = 20;
  constexpr double kStep = 6, kHigh = 10, kLeft = 14;
  std::string body = SvgText(0, kHigh, "0", "class=\"soft\"");
  for (int i = 0; i < kSteps; ++i) {
    const std::string box =
        fmt::format("x=\"{}\" y=\"1\" width=\"{}\" height=\"{}\"",
                    kLeft + kStep * i, kStep, kHigh);
    body += fmt::format(
        "<rect class=\"cell\" {0}/><rect class=\"heat\" "
        "fill-opacity=\"{1:.3f}\" {0}/>\n",
        box, i / (kSteps - 1.0));
  }
  const std::string words = fmt::format("{}: {}", full, meaning);
  const double right = kLeft + kStep * kSteps + 6;
  body += SvgText(right, kHigh, words, "class=\"soft\"");
  return {std::move(body), right + kLetter * DisplayWidth(words), kHigh + 6};
}

Drawing DrawSvg(const Picture& picture) {
  if (const auto* map = std::get_if<HeatMap>(&picture)) {
    return DrawHeatMap(*map);
  }
  return DrawPlotSvg(std::get<LinePlot>(picture));
}

Drawing StackDrawings(std::span<const Drawing> drawings) {
  Drawing all;
  for (const Drawing& one : drawings) {
    all.body += Placed(0, all.height, one);
    all.width = std::max(all.width, one.width);
    all.height += one.height;
  }
  return all;
}

std::string SvgDocument(const Drawing& drawing, std::string_view title,
                        std::string_view description) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"hw\" role=\"img\" "
      "aria-labelledby=\"t d\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n<title id=\"t\">{2}</title>\n"
      "<desc id=\"d\">{3}</desc>\n<style>\n{4}</style>\n"
      "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n{5}</svg>\n",
      drawing.width, drawing.height, Escape(title), Escape(description),
      SvgStyle(), drawing.body);
}

}  // namespace headwise
