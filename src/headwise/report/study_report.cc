// Text, JSON and SVG of a study. Door: study_report.h.
#include "headwise/report/study_report.h"

#include <fmt/core.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "headwise/report/svg.h"
#include "headwise/report/terminal.h"

namespace headwise {
namespace {

StudyTable FigureTable(const StudyResult& result) {
  StudyTable table{"Figures", {"figure", "measured", "expected", ""}, {}};
  for (const Figure& figure : result.figures) {
    const bool judged = !figure.expected.empty() || !figure.held;
    std::string expected = figure.expected;
    if (judged && figure.kind && *figure.kind != result.kind) {
      expected += fmt::format(" ({})", Name(*figure.kind));
    }
    table.rows.push_back({figure.name,
                          ShowInterval({figure.value, figure.low, figure.high}),
                          std::move(expected),
                          !judged       ? ""
                          : figure.held ? "held"
                                        : "NOT HELD"});
  }
  return table;
}

std::string Verdict(const StudyResult& result) {
  const char* found = result.held() ? "HELD" : "DID NOT HOLD";
  return result.indicative ? fmt::format("INDICATIVE ({})", found) : found;
}

}  // namespace

std::string StudyText(const Study& study, const StudyResult& result,
                      const Console& console) {
  std::string out = Bold(console, study.name) + '\n';
  out += Wrap(fmt::format("Claim: {}", study.claim), console.width);
  out += Wrap(
      fmt::format("Expectation ({}): {}.", Name(study.kind), study.expectation),
      console.width);
  for (const StudyTable& table : result.tables) {
    out += '\n' + Bold(console, Wrap(table.title, console.width)) +
           DrawTable(table, console);
  }
  for (const Picture& picture : result.pictures) {
    out += '\n' + DrawPicture(picture, console);
  }
  out += '\n' + Bold(console, "Figures") + '\n' +
         DrawTable(FigureTable(result), console);
  if (!result.remark.empty()) out += '\n' + Wrap(result.remark, console.width);
  int64_t judged = 0, held = 0;
  for (const Figure& figure : result.figures) {
    if (!result.Decides(figure)) continue;
    ++judged;
    held += figure.held;
  }
  const std::string verdict = Verdict(result);
  const std::string last =
      Wrap(fmt::format("{}: {} of {} figures as expected, {:.2f} s", verdict,
                       held, judged, result.seconds),
           console.width);
  out += '\n' +
         (result.held() ? Green(console, verdict) : Red(console, verdict)) +
         last.substr(verdict.size());
  return out;
}

Json StudyJson(const Study& study, const StudyResult& result) {
  Json figures = Json::object();
  for (const Figure& figure : result.figures) {
    figures[figure.name] = {{"value", figure.value},
                            {"expected", figure.expected},
                            {"held", figure.held}};
    if (figure.kind && *figure.kind != result.kind) {
      figures[figure.name]["kind"] = Name(*figure.kind);
    }
    if (!std::isfinite(figure.low) || !std::isfinite(figure.high)) continue;
    figures[figure.name]["low"] = figure.low;
    figures[figure.name]["high"] = figure.high;
  }
  Json held = result.held();
  if (result.indicative) held = "indicative";
  return {{"study", study.name},      {"claim", study.claim},
          {"kind", Name(study.kind)}, {"held", held},
          {"figures", figures},       {"seeds", result.seeds},
          {"seconds", result.seconds}};
}

std::string StudySvg(const Study& study, const StudyResult& result) {
  std::vector<Drawing> drawings;
  for (const Picture& picture : result.pictures) {
    drawings.push_back(DrawSvg(picture));
  }
  return SvgDocument(
      StackDrawings(drawings), fmt::format("Study: {}", study.name),
      fmt::format("{} Expectation ({}): {}. {}.", study.claim, Name(study.kind),
                  study.expectation, Verdict(result)));
}

std::string StudyListText(const Console& console) {
  std::string out;
  for (const Study* study : Studies()) {
    out += fmt::format("{}  {}\n", Bold(console, PadRight(study->name, 16)),
                       Dim(console, Name(study->kind)));
    out += Wrap(study->claim, console.width, 2);
  }
  return out;
}

Json StudyListJson() {
  Json list = Json::array();
  for (const Study* study : Studies()) {
    list.push_back({{"study", study->name},
                    {"claim", study->claim},
                    {"expectation", study->expectation},
                    {"kind", Name(study->kind)}});
  }
  return list;
}

}  // namespace headwise
