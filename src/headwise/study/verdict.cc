// Four words by intervals. Door: verdict.h.
#include "headwise/study/verdict.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace headwise {
namespace {

constexpr double kEnds = 0.05;  // of the range: too near to chance or the best

// Why nothing can be decided, whatever the interval; "" where it can.
std::string WhyUndecided(const Figure& figure, bool law,
                         const VerdictRules& rules) {
  if (std::isnan(figure.value)) return "not a number";
  if (figure.chance && figure.best) {
    const double near = kEnds * std::abs(*figure.best - *figure.chance);
    if (std::abs(figure.value - *figure.best) <= near) {
      return "within 5 % of the best possible";
    }
    if (std::abs(figure.value - *figure.chance) <= near) {
      return "within 5 % of chance";
    }
  }
  if (!rules.trained) return "";
  if (!figure.over_seeds) {
    return law ? "" : "one number, without an interval over seeds";
  }
  if (rules.seeds < rules.seeds_needed) {
    return fmt::format("{} of at least {} seeds", rules.seeds,
                       rules.seeds_needed);
  }
  if (!std::isfinite(figure.low) || !std::isfinite(figure.high)) {
    return "one model, without an interval over seeds";
  }
  return rules.full ? "" : "a quick run";
}

}  // namespace

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

const char* Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHeld:
      return "HELD";
    case Verdict::kExploratory:
      return "EXPLORATORY";
    case Verdict::kUndecided:
      return "UNDECIDED";
    case Verdict::kNotMeasured:
      return "NOT MEASURED";
    case Verdict::kRefuted:
      return "REFUTED";
  }
  return "";
}

Judgement Judge(const Figure& figure, StudyKind kind,
                const VerdictRules& rules) {
  if (!figure.not_formed.empty()) {
    return {Verdict::kNotMeasured, figure.not_formed};
  }
  const bool law = kind == StudyKind::kLaw;
  std::string why = WhyUndecided(figure, law, rules);
  if (!why.empty()) return {Verdict::kUndecided, std::move(why)};
  const bool point = !std::isfinite(figure.low) || !std::isfinite(figure.high);
  const double low = point ? figure.value : figure.low;
  const double high = point ? figure.value : figure.high;
  const bool held = low >= figure.least && high <= figure.most;
  const bool refuted = low > figure.most || high < figure.least;
  if (!held && !refuted) return {Verdict::kUndecided, ""};
  // What mathematics says does not depend on what was seen.
  if (rules.exploratory && !law) {
    return {Verdict::kExploratory,
            held ? "as expected, but changed after a result"
                 : "not as expected, but changed after a result"};
  }
  return {held ? Verdict::kHeld : Verdict::kRefuted, ""};
}

Verdict Weakest(std::span<const Verdict> verdicts) {
  if (verdicts.empty()) return Verdict::kUndecided;
  return *std::max_element(verdicts.begin(), verdicts.end());
}

}  // namespace headwise
