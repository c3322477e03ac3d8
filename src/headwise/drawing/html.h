// Pages without script, around drawings and tables: one template and style
// (web/plain.html), light and dark, no network.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/drawing/svg.h"
#include "headwise/study/picture.h"

namespace headwise {

// web/plain.html; embedded by headwise_embed (cmake/HeadwisePage.cmake).
std::string_view PlainTemplate();

struct PagePlace {
  std::string_view mark;
  std::string text;  // that takes its place
};
// The page with every place filled, in the order of the page. Throws
// Error(kInternal) where one is absent.
std::string FillPlaces(std::string_view page,
                       std::initializer_list<PagePlace> places);

// `body`: HTML, between a heading and the command that made the page.
std::string StaticPage(std::string_view title, std::string_view body,
                       std::string_view command);

// A drawing as wide as there is room, `most` pixels at most; 0: any width.
// label: read aloud; caption: HTML above it, "": none.
std::string HtmlFigure(const Drawing& drawing, std::string_view label,
                       std::string_view caption = "", double most = 0);

// Cells are HTML; the first of a row heads it. kind: a class of plain.html.
std::string HtmlTable(const StudyTable& table, std::string_view kind = "");

}  // namespace headwise
