// Plots and tables as a page. Door: pictures.h.
#include "headwise/drawing/pictures.h"

#include <fmt/core.h>

#include "headwise/drawing/html.h"

namespace headwise {
namespace {

std::string TitleOf(const Picture& picture) {
  return std::visit([](const auto& one) { return one.title; }, picture);
}

StudyTable Escaped(StudyTable table) {
  for (std::string& cell : table.columns) cell = Escape(cell);
  for (auto& row : table.rows) {
    for (std::string& cell : row) cell = Escape(cell);
  }
  table.title.clear();  // a heading says it
  return table;
}

}  // namespace

std::string PlotSvg(const LinePlot& plot, std::string_view description) {
  return SvgDocument(DrawPlotSvg(plot), plot.title, description);
}

std::string FigurePage(const FigurePageContent& content) {
  std::string body =
      fmt::format("<p class=\"lead\">{}</p>\n", Escape(content.lead));
  for (const Picture& picture : content.pictures) {
    body += HtmlFigure(DrawSvg(picture), TitleOf(picture), "", 920);
  }
  for (const std::string& note : content.notes) {
    body += fmt::format("<p>{}</p>\n", Escape(note));
  }
  for (const StudyTable& table : content.tables) {
    body += fmt::format("<h2>{}</h2>", Escape(table.title)) +
            HtmlTable(Escaped(table), "numbers");
  }
  return StaticPage(content.title, body, content.command);
}

}  // namespace headwise
