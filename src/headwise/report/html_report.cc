// Fills the embedded page. Door: html_report.h.
#include "headwise/report/html_report.h"

#include <fmt/core.h>

#include <cmath>

#include "headwise/drawing/svg.h"
#include "headwise/error.h"
#include "headwise/report/page_template.h"

namespace headwise {
namespace {

std::string Text(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || !found->is_string()
             ? ""
             : Escape(found->get<std::string>());
}

// "0.871 (0.852 to 0.890)", "" where there is no such number.
std::string IntervalText(const Json& json, const char* key) {
  const auto number = [&](const char* name) {
    const auto found = json.find(name);
    return found == json.end() || !found->is_number() ? NAN
                                                      : found->get<double>();
  };
  const double value = number(key), low = number("low"), high = number("high");
  if (std::isnan(value)) return "";
  if (std::isnan(low) || std::isnan(high)) return fmt::format("{:.3g}", value);
  return fmt::format("{:.3g} ({:.3g} to {:.3g})", value, low, high);
}

// Roles of a head, each with its score: "previous-token 0.98 (0.97 to 0.99)".
std::string Roles(const Json& head) {
  std::string out;
  for (const Json& role : head.value("roles", Json::array())) {
    if (!out.empty()) out += "<br>";
    out += Text(role, "name") + " " + IntervalText(role, "score");
    if (role.value("sink_excluded", false)) out += " when not at the sink";
  }
  return out.empty() ? "no role" : out;
}

std::string Effect(const Json& head, const std::string& by) {
  const auto found = head.find("importance");
  if (found == head.end()) return "";
  const Json values = found->value("values", Json::object());
  return values.contains(by) ? IntervalText(values[by], "value") : "";
}

std::string HeadTable(const Json& report) {
  const bool ranked = report.contains("importance");
  const std::string by =
      ranked ? report["importance"].value("by", std::string()) : "";
  std::string out =
      "<h2>The heads</h2><div class=\"scroll\"><table><thead><tr>"
      "<th scope=\"col\">Head</th><th scope=\"col\">Kind</th>"
      "<th scope=\"col\">Roles</th>"
      "<th scope=\"col\">What it does to what it reads</th>";
  if (ranked) {
    out += fmt::format("<th scope=\"col\">{}</th><th scope=\"col\">Class</th>",
                       Escape(by));
  }
  out += "</tr></thead><tbody>\n";
  for (const Json& head : report.value("heads", Json::array())) {
    out += fmt::format(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td>",
        Text(head, "id"), Text(head, "kind"), Roles(head),
        Text(head.value("content", Json::object()), "says"));
    if (ranked) {
      out += fmt::format(
          "<td>{}</td><td>{}</td>", Effect(head, by),
          head.contains("importance") ? Text(head["importance"], "class") : "");
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string Definitions(const Json& report) {
  std::string out;
  for (const Json& one : report.value("definitions", Json::array())) {
    const std::string trap = Text(one, "trap");
    out += fmt::format("<dt>{}</dt><dd>{}{}{}</dd>\n", Text(one, "name"),
                       Text(one, "sentence"),
                       trap.empty() ? "" : ". Beware: ", trap);
  }
  if (!out.empty()) {
    out = "<h2>How each number was computed</h2><dl>\n" + out + "</dl>\n";
  }
  std::string absent;
  for (const Json& one : report.value("absent", Json::array())) {
    absent += fmt::format("<dt>{}</dt><dd>{}</dd>\n", Text(one, "part"),
                          Text(one, "why"));
  }
  if (!absent.empty()) {
    out += "<h2>Not in this report</h2><dl>\n" + absent + "</dl>\n";
  }
  return out;
}

}  // namespace

std::string ScriptJson(const Json& json) {
  const std::string text = json.dump();
  std::string safe;
  safe.reserve(text.size() + text.size() / 64);
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string PlainTables(const Json& report) {
  const Json model = report.value("model", Json::object());
  std::string out = fmt::format("<h1>{}</h1>\n", Text(model, "name"));
  const Json summary = report.value("summary", Json::object());
  for (const Json& sentence : summary.value("sentences", Json::array())) {
    out += fmt::format("<p>{}</p>\n", Escape(sentence.get<std::string>()));
  }
  return out + HeadTable(report) + Definitions(report);
}

std::string FillTemplate(std::string_view page, std::string_view json,
                         std::string_view plain) {
  constexpr std::string_view kData = "id=\"report\">{}";
  constexpr std::string_view kPlain = "<!--plain-->";
  const size_t data = page.find(kData);
  const size_t tables = page.find(kPlain);
  if (data == page.npos || tables == page.npos || tables < data) {
    throw Error(ErrorCode::kInternal,
                {"report page", "places for the data, then the tables",
                 "a page without them", ""});
  }
  std::string out;
  out.reserve(page.size() + json.size() + plain.size());
  out += page.substr(0, data + kData.size() - 2);
  out += json;
  out += page.substr(data + kData.size(), tables - data - kData.size());
  out += plain;
  out += page.substr(tables + kPlain.size());
  return out;
}

std::string HtmlReport(const Json& report) {
  return FillTemplate(PageTemplate(), ScriptJson(report), PlainTables(report));
}

}  // namespace headwise
