// Pictures as self-contained SVG: light and dark by the reader's preference,
// marks that do not rely on colour alone, a title and a description.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "headwise/study/picture.h"

namespace headwise {

// Text for XML and HTML content and attributes. Control characters, which
// neither may hold, become spaces; bytes that are no UTF-8 become U+FFFD.
std::string Escape(std::string_view text);

// A part of a drawing: elements to be placed inside an <svg>, and their size.
struct Drawing {
  std::string body;
  double width = 0;
  double height = 0;
};

Drawing DrawSvg(const Picture& picture);
Drawing DrawPlotSvg(const LinePlot& plot);

// The elements of a drawing whose corner is at (x, y).
std::string Placed(double x, double y, const Drawing& drawing);

// Drawings below each other.
Drawing StackDrawings(std::span<const Drawing> drawings);

// <text> at (x, y); `attributes` go into the tag.
std::string SvgText(double x, double y, std::string_view text,
                    std::string_view attributes = "");

// The drawing as a document of its own.
std::string SvgDocument(const Drawing& drawing, std::string_view title,
                        std::string_view description);

// web/drawing.css, which the elements' classes refer to, for pages that hold
// drawings inside an element of class "hw".
std::string_view SvgStyle();

// The class of text that stays readable on a cell of this strength.
const char* OnHeat(double strength);

// A strip of the colours of cells, from 0 to full strength, with what its ends
// stand for and `meaning` behind it.
Drawing DrawScale(std::string_view full, std::string_view meaning);

// How the cells of a heat map are laid out.
struct MapLayout {
  double cell = 40;         // width of a cell
  double row_height = 40;   // its height is no more than its width
  bool labels = true;       // row and column labels
  bool numbers = true;      // shares written into the cells
  bool hints = true;        // a <title> per cell: "row → column share"
  double full_scale = 1;    // the share drawn at full strength
  double label_width = 70;  // room for row labels
  double label_size = 12;   // of their letters
};

// The cells alone, without the map's title. What a row cannot see has no cell.
Drawing DrawMapSvg(const HeatMap& map, const MapLayout& layout);

}  // namespace headwise
