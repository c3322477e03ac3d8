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

void StudyResult::Add(Figure figure) {
  figure.kind = next_;
  figures.push_back(std::move(figure));
}

void StudyResult::AtMost(std::string name, double value, double limit) {
  Add({std::move(name), value, fmt::format("≤ {:.4g}", limit), value <= limit});
}

void StudyResult::AtLeast(std::string name, double value, double limit) {
  Add({std::move(name), value, fmt::format("≥ {:.4g}", limit), value >= limit});
}

void StudyResult::Near(std::string name, double value, double want,
                       double tolerance) {
  const std::string expected =
      tolerance == 0 ? fmt::format("= {:.7g}", want)
                     : fmt::format("{:.4g} ± {:.2g}", want, tolerance);
  Add({std::move(name), value, expected, std::abs(value - want) <= tolerance});
}

void StudyResult::Report(std::string name, double value) {
  Add({std::move(name), value, "", std::isfinite(value)});
}

void StudyResult::SetInterval(const Interval& mean) {
  figures.back().low = mean.low;
  figures.back().high = mean.high;
}

void StudyResult::AtMost(std::string name, const Interval& mean, double limit) {
  AtMost(std::move(name), mean.value, limit);
  SetInterval(mean);
}

void StudyResult::AtLeast(std::string name, const Interval& mean,
                          double limit) {
  AtLeast(std::move(name), mean.value, limit);
  SetInterval(mean);
}

void StudyResult::Near(std::string name, const Interval& mean, double want,
                       double tolerance) {
  Near(std::move(name), mean.value, want, tolerance);
  SetInterval(mean);
}

void StudyResult::Report(std::string name, const Interval& mean) {
  Report(std::move(name), mean.value);
  SetInterval(mean);
}

std::string ShowInterval(const Interval& interval) {
  if (!std::isfinite(interval.low) || !std::isfinite(interval.high)) {
    return fmt::format("{:.4g}", interval.value);
  }
  return fmt::format("{:.4g} [{:.3g}, {:.3g}]", interval.value, interval.low,
                     interval.high);
}

bool StudyResult::held() const {
  return !figures.empty() &&
         std::all_of(figures.begin(), figures.end(), [&](const Figure& figure) {
           return figure.held || (!figure.expected.empty() && !Decides(figure));
         });
}

bool StudyResult::laws_held() const {
  return std::all_of(figures.begin(), figures.end(), [&](const Figure& figure) {
    return figure.held || figure.kind.value_or(kind) != StudyKind::kLaw;
  });
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
      &kKLookupStudy,         //
      &kTeacherStudentStudy,  //
      &kLimitsStudy,          //
      &kSubspacesStudy,       //
      &kTastyStudy,           //
      &kEmergenceStudy,       //
      &kSymmetryStudy,        //
      &kRedundancyStudy,      //
      &kHeadCountStudy,       //
      &kOneVsManyStudy,       //
      &kSpecialiseStudy,      //
      &kNegativeStudy,        //
      &kLayersStudy,          //
      &kGradientFlowStudy,    //
      &kEffectiveHeadsStudy,  //
      &kTeamStudy,            //
      &kAssignedStudy,        //
      &kHeadDropoutStudy,     //
      &kGatesStudy,           //
      &kPruneCurveStudy,      //
      &kOnePerLayerStudy,     //
      &kMixtureStudy,         //
      &kKvCacheStudy,         //
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
               .hint = fmt::format("did you mean {}? `list` names them "
                                   "all",
                                   Nearest(name, names))});
}

StudyResult RunStudy(const Study& study, Context& context,
                     const StudyRequest& request) {
  if (!study.any_device && !context.device().is_cpu()) {
    throw Error(ErrorCode::kUnsupported,
                {fmt::format("study {}", study.name),
                 "the CPU: it reads what single heads compute as it goes",
                 ToString(context.device()), "leave out --device"});
  }
  const auto start = std::chrono::steady_clock::now();
  StudyResult result = study.run(context, request);
  result.kind = study.kind;
  result.indicative =
      study.trained && study.kind != StudyKind::kLaw && !request.full;
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return result;
}

}  // namespace headwise
