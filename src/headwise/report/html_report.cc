// Fills the embedded page. Door: html_report.h.
#include "headwise/report/html_report.h"

#include <fmt/core.h>

#include <cmath>
#include <functional>
#include <utility>

#include "headwise/drawing/html.h"

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
  StudyTable table;
  table.columns = {"Head", "Kind", "Roles", "What it does to what it reads"};
  if (ranked) table.columns.insert(table.columns.end(), {Escape(by), "Class"});
  for (const Json& head : report.value("heads", Json::array())) {
    std::vector<std::string> row = {
        Text(head, "id"), Text(head, "kind"), Roles(head),
        Text(head.value("content", Json::object()), "says")};
    if (ranked) {
      row.push_back(Effect(head, by));
      row.push_back(Text(head.value("importance", Json::object()), "class"));
    }
    table.rows.push_back(std::move(row));
  }
  return "<h2>The heads</h2>" + HtmlTable(table);
}

// "<h2>…</h2><dl>…</dl>" of so many terms; "" of none.
std::string Terms(const char* heading, const Json& list, const char* name,
                  const std::function<std::string(const Json&)>& says) {
  if (list.empty()) return "";
  std::string out = fmt::format("<h2>{}</h2><dl>\n", heading);
  for (const Json& one : list) {
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", Text(one, name), says(one));
  }
  return out + "</dl>\n";
}

std::string Definitions(const Json& report) {
  return Terms("How each number was computed",
               report.value("definitions", Json::array()), "name",
               [](const Json& one) {
                 const std::string trap = Text(one, "trap");
                 return Text(one, "sentence") +
                        (trap.empty() ? "" : ". Beware: " + trap);
               }) +
         Terms("Not in this report", report.value("absent", Json::array()),
               "part", [](const Json& one) { return Text(one, "why"); });
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

std::string HtmlReport(const Json& report) {
  return FillPlaces(PageTemplate(), {{"id=\"report\">{}",
                                      "id=\"report\">" + ScriptJson(report)},
                                     {"<!--plain-->", PlainTables(report)}});
}

}  // namespace headwise
