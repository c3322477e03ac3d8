// Door: html.h.
#include "headwise/drawing/html.h"

#include <fmt/core.h>

#include "headwise/error.h"
#include "headwise/version.h"

namespace headwise {

std::string FillPlaces(std::string_view page,
                       std::initializer_list<PagePlace> places) {
  std::string out;
  for (const PagePlace& place : places) {
    const size_t at = page.find(place.mark);
    if (at == page.npos) {
      throw Error(ErrorCode::kInternal,
                  {"page", "the place " + std::string(place.mark),
                   "a page without it", ""});
    }
    out += page.substr(0, at);
    out += place.text;
    page.remove_prefix(at + place.mark.size());
  }
  return out += page;
}

std::string StaticPage(std::string_view title, std::string_view body,
                       std::string_view command) {
  const std::string name = Escape(title);
  return FillPlaces(
      PlainTemplate(),
      {{"Headwise report", name},
       {"<script type=\"application/json\" id=\"report\">{}</script>", ""},
       {"<!--plain-->",
        fmt::format("<h1>{}</h1>{}<footer><p>Made by headwise {}: "
                    "<code>{}</code></p></footer>",
                    name, body, HEADWISE_VERSION_STRING, Escape(command))}});
}

std::string HtmlFigure(const Drawing& drawing, std::string_view label,
                       std::string_view caption, double most) {
  return fmt::format(
      "<figure>{}<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {:.0f} "
      "{:.0f}\"{}>\n{}</svg></figure>\n",
      caption.empty() ? ""
                      : fmt::format("<figcaption>{}</figcaption>", caption),
      Escape(label), drawing.width, drawing.height,
      most > 0 ? fmt::format(" style=\"max-width:{:.0f}px\"", most) : "",
      drawing.body);
}

std::string HtmlTable(const StudyTable& table, std::string_view kind) {
  std::string out = "<div class=\"scroll\"><table";
  if (!kind.empty()) out += fmt::format(" class=\"{}\"", kind);
  out += '>';
  if (!table.title.empty()) {
    out += fmt::format("<caption>{}</caption>", table.title);
  }
  out += "<thead><tr>";
  for (const std::string& column : table.columns) {
    out += fmt::format("<th scope=\"col\">{}</th>", column);
  }
  out += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += fmt::format("<tr><th scope=\"row\">{}</th>", row[0]);
    for (size_t c = 1; c < row.size(); ++c) {
      out += fmt::format("<td>{}</td>", row[c]);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace headwise
