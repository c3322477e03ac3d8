// Text, JSON and SVG of a study. Door: study_report.h.
#include "headwise/drawing/study_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "headwise/drawing/svg.h"
#include "headwise/drawing/terminal.h"

namespace headwise {
namespace {

// Lower case: the word of a figure, beside the study's own.
std::string Word(Verdict verdict) {
  std::string word = Name(verdict);
  for (char& c : word) c = static_cast<char>(c - 'A' + 'a');
  return word;
}

std::string Measured(const Figure& figure) {
  std::string measured = ShowInterval({figure.value, figure.low, figure.high});
  if (figure.sequences) {
    measured += fmt::format(" (sequences [{:.3g}, {:.3g}])",
                            figure.sequences->low, figure.sequences->high);
  }
  return measured;
}

// What stands behind "expected": where nothing or something else rests on it.
std::string Expected(const StudyResult& result, const Figure& figure) {
  if (figure.expected.empty()) return "";
  if (figure.information) return figure.expected + " (information)";
  if (figure.kind && *figure.kind != result.kind) {
    return fmt::format("{} ({})", figure.expected, Name(*figure.kind));
  }
  return figure.expected;
}

StudyTable FigureTable(const StudyResult& result) {
  StudyTable table{"Figures", {"figure", "measured", "expected", ""}, {}};
  for (const Figure& figure : result.figures) {
    table.rows.push_back(
        {figure.name, Measured(figure), Expected(result, figure),
         figure.expected.empty() ? ""
                                 : Word(result.JudgementOf(figure).verdict)});
  }
  return table;
}

// "undecided, 1 of at least 5 seeds: 4 figures." for each reason.
std::string Reasons(const StudyResult& result, const Console& console) {
  std::vector<std::pair<std::string, int>> reasons;
  for (const Figure& figure : result.figures) {
    const Judgement judgement = result.JudgementOf(figure);
    if (figure.expected.empty() || judgement.why.empty()) continue;
    const std::string reason = Word(judgement.verdict) + ", " + judgement.why;
    const auto known = std::find_if(
        reasons.begin(), reasons.end(),
        [&](const auto& counted) { return counted.first == reason; });
    if (known == reasons.end()) {
      reasons.emplace_back(reason, 1);
    } else {
      ++known->second;
    }
  }
  std::string out;
  for (const auto& [reason, count] : reasons) {
    out += Wrap(fmt::format("{}: {}", reason, Counted(count, "figure")),
                console.width);
  }
  return out;
}

std::string Coloured(const Console& console, Verdict verdict) {
  const char* word = Name(verdict);
  if (verdict == Verdict::kHeld) return Green(console, word);
  if (verdict == Verdict::kRefuted) return Red(console, word);
  return Bold(console, word);
}

std::string Heading(const Study& study, const Console& console) {
  return Bold(console, study.name) + '\n' +
         Wrap(fmt::format("Claim: {}", study.claim), console.width) +
         Wrap(fmt::format("Expectation ({}): {}.", Name(study.kind),
                          study.expectation),
              console.width);
}

Json Numbers(const std::vector<double>& values) {
  Json numbers = Json::array();
  for (const double value : values) numbers.push_back(FiniteOrNull(value));
  return numbers;
}

Json FigureJson(const StudyResult& result, const Figure& figure) {
  Json json = {{"value", FiniteOrNull(figure.value)},
               {"expected", figure.expected},
               {"decides", result.Decides(figure)}};
  if (figure.information) json["information"] = true;
  if (std::isfinite(figure.least)) json["least"] = figure.least;
  if (std::isfinite(figure.most)) json["most"] = figure.most;
  if (!figure.expected.empty()) {
    const Judgement judgement = result.JudgementOf(figure);
    json["verdict"] = Name(judgement.verdict);
    if (!judgement.why.empty()) json["why"] = judgement.why;
  }
  if (figure.kind && *figure.kind != result.kind) {
    json["kind"] = Name(*figure.kind);
  }
  if (std::isfinite(figure.low) && std::isfinite(figure.high)) {
    json["low"] = figure.low;
    json["high"] = figure.high;
  }
  if (!figure.values.empty()) json["values"] = Numbers(figure.values);
  if (figure.bounds != Bounds{}) {
    json["bounds"] = Numbers({figure.bounds.low, figure.bounds.high});
  }
  if (figure.sequences) {
    json["sequences"] = {{"low", FiniteOrNull(figure.sequences->low)},
                         {"high", FiniteOrNull(figure.sequences->high)}};
  }
  if (figure.chance) json["chance"] = *figure.chance;
  if (figure.best) json["best"] = *figure.best;
  return json;
}

}  // namespace

std::string StudyText(const Study& study, const StudyResult& result,
                      const Console& console) {
  std::string out = Heading(study, console);
  for (const StudyTable& table : result.tables) {
    out += '\n' + Bold(console, Wrap(table.title, console.width)) +
           DrawTable(table, console);
  }
  for (const Picture& picture : result.pictures) {
    out += '\n' + DrawPicture(picture, console);
  }
  out += '\n' + Bold(console, "Figures") + '\n' +
         DrawTable(FigureTable(result), console) + Reasons(result, console);
  if (!result.remark.empty()) out += '\n' + Wrap(result.remark, console.width);
  int64_t judged = 0, held = 0;
  for (const Figure& figure : result.figures) {
    if (!result.Decides(figure)) continue;
    ++judged;
    held += result.JudgementOf(figure).verdict == Verdict::kHeld;
  }
  const std::string word = Name(result.verdict());
  const std::string last = Wrap(
      fmt::format("{}: {} of {} figures held, {}, {:.2f} s", word, held, judged,
                  Counted(std::ssize(result.seeds), "seed"), result.seconds),
      console.width);
  return out + '\n' + Coloured(console, result.verdict()) +
         last.substr(word.size());
}

std::string StudyExplanation(const Study& study, const Console& console) {
  std::string out = Heading(study, console);
  std::string needs = "A verdict needs no training.";
  if (study.trained) {
    needs =
        fmt::format("A verdict on what is trained needs --full and {} seeds.",
                    study.seeds_needed());
  }
  if (!study.fresh_seeds.empty()) {
    needs += " Fresh seeds, fixed before they were run:";
    for (const uint64_t seed : study.fresh_seeds) {
      needs += fmt::format(" {}", seed);
    }
    needs += '.';
  }
  out += Wrap(fmt::format("Revision {}. {}", study.revision, needs),
              console.width);
  if (!study.changed_after_result()) {
    out += "Nothing changed after a result.\n";
  }
  if (study.history.empty()) return out;
  out += '\n' + Bold(console, "What was changed") + '\n';
  for (const StudyChange& change : study.history) {
    out += Wrap(fmt::format("First: {}.", change.first), console.width);
    out += Wrap(fmt::format("Now: {}.", change.changed), console.width, 2);
    out += Wrap(fmt::format("Why: {}.", change.why), console.width, 2);
    out +=
        Wrap(fmt::format("In: \"{}\", {} any result was seen.", change.commit,
                         change.after_result ? "after" : "before"),
             console.width, 2);
  }
  if (study.changed_after_result() && study.fresh_seeds.empty()) {
    out +=
        Wrap("EXPLORATORY at most, until fresh seeds confirm.", console.width);
  }
  return out;
}

Json StudyHistoryJson(const Study& study) {
  Json history = Json::array();
  for (const StudyChange& change : study.history) {
    history.push_back({{"first", change.first},
                       {"changed", change.changed},
                       {"why", change.why},
                       {"commit", change.commit},
                       {"after_result", change.after_result}});
  }
  return history;
}

Json StudyJson(const Study& study, const StudyResult& result) {
  Json figures = Json::object();
  for (const Figure& figure : result.figures) {
    figures[figure.name] = FigureJson(result, figure);
  }
  Json json = {{"study", study.name},
               {"claim", study.claim},
               {"kind", Name(study.kind)},
               {"verdict", Name(result.verdict())},
               {"laws_held", result.laws_held()},
               {"figures", figures},
               {"seeds", result.seeds},
               {"full", result.rules.full},
               {"steps", result.steps},
               {"revision", study.revision},
               {"hash", StudyHash(study, result)},
               {"changed_after_a_result", study.changed_after_result()},
               {"seconds", result.seconds}};
  if (result.text) {
    json["text"] = {{"name", result.text->name},
                    {"hash", result.text->hash},
                    {"tokenizer", result.text->tokenizer}};
  }
  return json;
}

std::string StudySvg(const Study& study, const StudyResult& result) {
  std::vector<Drawing> drawings;
  for (const Picture& picture : result.pictures) {
    drawings.push_back(DrawSvg(picture));
  }
  return SvgDocument(
      StackDrawings(drawings), fmt::format("Study: {}", study.name),
      fmt::format("{} Expectation ({}): {}. {}.", study.claim, Name(study.kind),
                  study.expectation, Name(result.verdict())));
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
    list.push_back(
        {{"study", study->name},
         {"claim", study->claim},
         {"expectation", study->expectation},
         {"kind", Name(study->kind)},
         {"trained", study->trained},
         {"any_device", study->any_device},
         {"seeds_needed", study->trained ? study->seeds_needed() : 1},
         {"revision", study->revision},
         {"history", StudyHistoryJson(*study)}});
  }
  return list;
}

}  // namespace headwise
