// The list of studies and the bookkeeping they share. Door: study.h.
#include "headwise/study/study.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "headwise/base/nearest.h"
#include "headwise/error.h"

namespace headwise {

const char* Name(StudyKind kind) {
  switch (kind) {
    case StudyKind::kLaw:
      return "law";
    case StudyKind::kLiterature:
      return "literature";
    case StudyKind::kHypothesis:
      return "hypothesis";
  }
  return "";
}

void StudyResult::AtMost(std::string name, double value, double limit) {
  figures.push_back(
      {std::move(name), value, fmt::format("≤ {:.4g}", limit), value <= limit});
}

void StudyResult::AtLeast(std::string name, double value, double limit) {
  figures.push_back(
      {std::move(name), value, fmt::format("≥ {:.4g}", limit), value >= limit});
}

void StudyResult::Near(std::string name, double value, double want,
                       double tolerance) {
  const std::string expected =
      tolerance == 0 ? fmt::format("= {:.7g}", want)
                     : fmt::format("{:.4g} ± {:.2g}", want, tolerance);
  figures.push_back(
      {std::move(name), value, expected, std::abs(value - want) <= tolerance});
}

bool StudyResult::held() const {
  return !figures.empty() &&
         std::all_of(figures.begin(), figures.end(),
                     [](const Figure& figure) { return figure.held; });
}

std::span<const Study* const> Studies() {
  static const Study* const studies[] = {
      &kOperatorStudy,        //
      &kCostStudy,            //
      &kNormaliseOrderStudy,  //
      &kAveragingStudy,       //
      &kContentStudy,         //
      &kConvolutionStudy,     //
      &kRankStudy,            //
  };
  return studies;
}

const Study& FindStudy(std::string_view name) {
  std::vector<std::string> names;
  for (const Study* study : Studies()) {
    if (study->name == name) return *study;
    names.emplace_back(study->name);
  }
  throw Error(ErrorCode::kNotFound,
              {.where = "study",
               .expected = "the name of a study",
               .found = fmt::format("\"{}\"", name),
               .hint = fmt::format("did you mean {}? `headwise study --list` "
                                   "names them all",
                                   Nearest(name, names))});
}

StudyResult RunStudy(const Study& study, Context& context,
                     const StudyRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  StudyResult result = study.run(context, request);
  result.indicative =
      study.trained && study.kind != StudyKind::kLaw && !request.full;
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return result;
}

}  // namespace headwise
