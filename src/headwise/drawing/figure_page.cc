// Door: figure_page.h.
#include "headwise/drawing/figure_page.h"

#include <fmt/core.h>

#include "headwise/drawing/svg.h"
#include "headwise/version.h"

namespace headwise {
namespace {

constexpr std::string_view kFigurePageStyle = R"(
*{box-sizing:border-box}
html{color-scheme:light dark}
body{margin:0;background:var(--paper);color:var(--ink);line-height:1.5;
font-size:16px}
main{max-width:960px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 4px}
h2{font-size:1.2rem;margin:36px 0 6px}
p{margin:6px 0 12px;max-width:68ch}
.lead{font-size:1.1rem;color:var(--soft)}
svg{display:block;width:100%;height:auto}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:5px 9px;text-align:right;font-weight:400;white-space:nowrap}
thead th{color:var(--soft);font-size:.875rem;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child{text-align:left}
footer{margin-top:44px;border-top:1px solid var(--rule);padding-top:12px;
color:var(--soft);font-size:.875rem}
code{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.9em;
background:var(--cell);padding:2px 5px;border-radius:4px;overflow-wrap:anywhere}
)";

std::string TitleOf(const Picture& picture) {
  return std::visit([](const auto& one) { return one.title; }, picture);
}

std::string FigureOf(const Picture& picture) {
  const Drawing drawing = DrawSvg(picture);
  return fmt::format(
      "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {:.0f} "
      "{:.0f}\">\n{}</svg>\n",
      Escape(TitleOf(picture)), drawing.width, drawing.height, drawing.body);
}

std::string TableOf(const StudyTable& table) {
  std::string out =
      fmt::format("<h2>{}</h2><div class=\"scroll\"><table><thead><tr>",
                  Escape(table.title));
  for (const std::string& column : table.columns) {
    out += fmt::format("<th scope=\"col\">{}</th>", Escape(column));
  }
  out += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += "<tr>";
    for (const std::string& cell : row) {
      out += fmt::format("<td>{}</td>", Escape(cell));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string FigurePage(const FigurePageContent& content) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\" class=\"hw\"><head><meta "
      "charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>{0}</title>\n"
      "<style>{1}{2}</style></head><body><main>\n<h1>{0}</h1><p "
      "class=\"lead\">{3}</p>\n",
      Escape(content.title), SvgStyle(), kFigurePageStyle,
      Escape(content.lead));
  for (const Picture& picture : content.pictures) out += FigureOf(picture);
  for (const std::string& note : content.notes) {
    out += fmt::format("<p>{}</p>\n", Escape(note));
  }
  for (const StudyTable& table : content.tables) out += TableOf(table);
  return out + fmt::format(
                   "<footer><p>Made by headwise {}: <code>{}</code></p>"
                   "</footer>\n</main></body></html>\n",
                   HEADWISE_VERSION_STRING, Escape(content.command));
}

}  // namespace headwise
