// The list of studies and the bookkeeping they share. Door: study.h.
#include "headwise/study/study.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "headwise/base/nearest.h"
#include "headwise/error.h"

namespace headwise {
namespace {

// Whether a run took seeds that were fixed before anyone saw their results.
bool OnFreshSeeds(const Study& study, const StudyResult& result) {
  // What a study was changed by are smaller ones; more evidence, on seeds after
  // those that were fixed, is as fresh.
  if (study.fresh_seeds.empty()) return false;
  const uint64_t first = std::ranges::min(study.fresh_seeds);
  return std::ranges::all_of(result.seeds,
                             [&](uint64_t seed) { return seed >= first; });
}

}  // namespace

void StudyResult::Add(std::string name, double value, std::string expected,
                      double least, double most) {
  Figure figure;
  figure.name = std::move(name);
  figure.value = value;
  figure.expected = std::move(expected);
  figure.least = least;
  figure.most = most;
  figure.kind = next_;
  figure.information = information_;
  figure.not_formed = not_formed_;
  figures.push_back(std::move(figure));
}

void StudyResult::AtMost(std::string name, double value, double limit) {
  Add(std::move(name), value, fmt::format("≤ {:.4g}", limit),
      -Figure::kInfinity, limit);
}

void StudyResult::AtLeast(std::string name, double value, double limit) {
  Add(std::move(name), value, fmt::format("≥ {:.4g}", limit), limit,
      Figure::kInfinity);
}

void StudyResult::Near(std::string name, double value, double want,
                       double tolerance) {
  const std::string expected =
      tolerance == 0 ? fmt::format("= {:.7g}", want)
                     : fmt::format("{:.4g} ± {:.2g}", want, tolerance);
  Add(std::move(name), value, expected, want - tolerance, want + tolerance);
}

void StudyResult::Report(std::string name, double value) {
  Add(std::move(name), value, "", -Figure::kInfinity, Figure::kInfinity);
}

void StudyResult::SetInterval(const SeedMean& mean) {
  figures.back().over_seeds = true;
  figures.back().low = mean.low;
  figures.back().high = mean.high;
  figures.back().values = mean.values;
  figures.back().bounds = mean.bounds;
}

void StudyResult::AtMost(std::string name, const SeedMean& mean, double limit) {
  AtMost(std::move(name), mean.value, limit);
  SetInterval(mean);
}

void StudyResult::AtLeast(std::string name, const SeedMean& mean,
                          double limit) {
  AtLeast(std::move(name), mean.value, limit);
  SetInterval(mean);
}

void StudyResult::Near(std::string name, const SeedMean& mean, double want,
                       double tolerance) {
  Near(std::move(name), mean.value, want, tolerance);
  SetInterval(mean);
}

void StudyResult::WithinMargin(std::string name, const SeedMean& mean,
                               double margin) {
  Add(std::move(name), mean.value, fmt::format("within ± {:.4g}", margin),
      -margin, margin);
  SetInterval(mean);
}

void StudyResult::Formed(const std::string& what, const SeedMean& scores,
                         double floor) {
  EndFormed();
  const auto formed = std::ranges::count_if(
      scores.values, [&](double score) { return score >= floor; });
  const bool inform = std::exchange(information_, true);
  AtLeast(fmt::format("formed: {}", what), scores, floor);
  information_ = inform;
  if (formed == std::ssize(scores.values)) return;
  not_formed_ = fmt::format("{} reached {:.4g} in {} of {} models", what, floor,
                            formed, scores.values.size());
}

void StudyResult::Report(std::string name, const SeedMean& mean) {
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

void StudyResult::OverSequences(const Interval& interval) {
  figures.back().sequences = interval;
}

void StudyResult::Between(double chance, double best) {
  figures.back().chance = chance;
  figures.back().best = best;
}

Verdict StudyResult::verdict() const {
  std::vector<Verdict> verdicts;
  for (const Figure& figure : figures) {
    if (Decides(figure)) verdicts.push_back(JudgementOf(figure).verdict);
    // What is only reported must be a number all the same.
    if (figure.expected.empty() && std::isnan(figure.value)) {
      verdicts.push_back(Verdict::kUndecided);
    }
  }
  return Weakest(verdicts);
}

bool StudyResult::laws_held() const {
  return std::all_of(figures.begin(), figures.end(), [&](const Figure& figure) {
    return KindOf(figure) != StudyKind::kLaw || figure.as_expected();
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
      &kRaspStudy,            //
      &kTeacherStudentStudy,  //
      &kLimitsStudy,          //
      &kSubspacesStudy,       //
      &kTastyStudy,           //
      &kEmergenceStudy,       //
      &kPositionsStudy,       //
      &kSymmetryStudy,        //
      &kRedundancyStudy,      //
      &kHeadCountStudy,       //
      &kTranslatorsStudy,     //
      &kOneVsManyStudy,       //
      &kRecipeStudy,          //
      &kSpecialiseStudy,      //
      &kNegativeStudy,        //
      &kLayersStudy,          //
      &kFreezingStudy,        //
      &kGradientFlowStudy,    //
      &kEffectiveHeadsStudy,  //
      &kTeamStudy,            //
      &kAssignedStudy,        //
      &kSupervisionStudy,     //
      &kHeadDropoutStudy,     //
      &kGatesStudy,           //
      &kPruneCurveStudy,      //
      &kRemovalStudy,         //
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

std::vector<uint64_t> Study::replicate_seeds() const {
  constexpr uint64_t kReplicates = 5, kApart = 1000;
  std::vector<uint64_t> seeds;
  const uint64_t after =
      fresh_seeds.empty() ? 0 : std::ranges::max(fresh_seeds);
  for (uint64_t i = 1; i <= kReplicates; ++i) {
    seeds.push_back(kApart + after + i);
  }
  return seeds;
}

std::vector<uint64_t> SeedsOf(const Study& study, const StudyRequest& request) {
  if (!request.chosen.empty()) return request.chosen;
  const std::span<const uint64_t> fresh =
      request.full ? study.fresh_seeds : std::span<const uint64_t>();
  int64_t count = request.seed_count;
  if (count == 0) {
    count = !request.full   ? 1
            : fresh.empty() ? study.seeds_needed()
                            : std::ssize(fresh);
  }
  std::vector<uint64_t> seeds(
      fresh.begin(),
      fresh.begin() + std::min<int64_t>(count, std::ssize(fresh)));
  uint64_t next = fresh.empty() ? 1 : *std::ranges::max_element(fresh) + 1;
  while (std::ssize(seeds) < count) seeds.push_back(next++);
  return seeds;
}

std::string StudyHash(const Study& study, const StudyResult& result) {
  // Each part ends with a byte that none holds.
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&](std::string_view part) {
    for (const char c : part) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    hash *= 0x100000001b3;  // a zero byte
  };
  for (const char* part :
       {study.name, study.claim, study.expectation, Name(study.kind)}) {
    add(part);
  }
  add(fmt::format("revision {}, {} seeds", study.revision,
                  study.seeds_needed()));
  for (const uint64_t seed : study.fresh_seeds) add(fmt::format("{}", seed));
  for (const std::string& steps : result.steps) add(steps);
  for (const Figure& figure : result.figures) {
    if (figure.expected.empty() || figure.information) continue;
    add(figure.name);
    add(figure.expected);
    add(figure.kind ? Name(*figure.kind) : "");
  }
  return fmt::format("{:016x}", hash);
}

VerdictRules RulesOf(const Study& study, const StudyResult& result, bool full) {
  return {.trained = study.trained,
          .full = full,
          .seeds = std::ssize(result.seeds),
          .seeds_needed = study.seeds_needed(),
          .exploratory =
              study.changed_after_result() && !OnFreshSeeds(study, result)};
}

StudyResult RunStudy(const Study& study, Context& context,
                     const StudyRequest& request) {
  if (!study.any_device && !context.device().is_cpu()) {
    throw Error(ErrorCode::kUnsupported,
                {fmt::format("study {}", study.name),
                 "the CPU: it reads what single heads compute as it goes",
                 ToString(context.device()), "leave out --device"});
  }
  StudyRequest own = request;
  own.seeds = SeedsOf(study, request);
  own.notes = std::make_shared<StudyNotes>();
  const auto start = std::chrono::steady_clock::now();
  StudyResult result = study.run(context, own);
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  result.kind = study.kind;
  result.rules = RulesOf(study, result, request.full && request.effort >= 1);
  result.steps = own.notes->steps();
  result.text = own.notes->text();
  return result;
}

std::string ExpectedHash(const Study& study, Context& context,
                         const StudyRequest& request) {
  StudyRequest least = request;
  least.full = false;
  least.seed_count = 1;
  least.chosen.clear();
  least.effort = 0;
  least.model.clear();
  least.twin.clear();
  least.keep.clear();
  least.progress = nullptr;
  return StudyHash(study, RunStudy(study, context, least));
}

}  // namespace headwise
