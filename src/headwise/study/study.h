// Studies: every claim about multi-head attention as something that runs and
// says whether it held. One file each, with claim, expectation and kind at its
// top; Studies() lists them, RunStudy() runs one. Drawing is report/'s work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/base/progress.h"
#include "headwise/context.h"
#include "headwise/heads/importance/statistics.h"
#include "headwise/study/picture.h"

namespace headwise {

// What an expectation rests on, firmest first.
enum class StudyKind {
  kLaw,         // mathematics: must hold
  kLiterature,  // others measured it
  kHypothesis,  // open
};
const char* Name(StudyKind kind);

// One number that was measured, and what was expected of it.
struct Figure {
  std::string name;
  double value = 0;
  std::string expected;  // "": nothing; it is only reported
  bool held = false;
  // 95 % interval over seeds; −∞ and ∞: there is none.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::optional<StudyKind> kind = {};  // where it is not the study's
};

struct StudyTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

struct StudyResult {
  std::vector<Figure> figures;
  std::vector<StudyTable> tables;
  std::vector<Picture> pictures;
  std::vector<uint64_t> seeds;
  std::string remark;       // what a reader should take along, or ""
  bool indicative = false;  // one seed of a trained study proves nothing
  double seconds = 0;
  StudyKind kind = StudyKind::kHypothesis;  // of the study: set by RunStudy

  // value ≤ limit, value ≥ limit, |value − want| ≤ tolerance. NaN never holds.
  void AtMost(std::string name, double value, double limit);
  void AtLeast(std::string name, double value, double limit);
  void Near(std::string name, double value, double want, double tolerance);
  // The same for a mean over seeds; the mean is judged.
  void AtMost(std::string name, const Interval& mean, double limit);
  void AtLeast(std::string name, const Interval& mean, double limit);
  void Near(std::string name, const Interval& mean, double want,
            double tolerance);
  // Of what nothing is expected but to be a number.
  void Report(std::string name, double value);
  void Report(std::string name, const Interval& mean);

  // Figures from now on are of this kind, where a study has several.
  void Expect(StudyKind of_next) { next_ = of_next; }

  // All figures as expected; of a law, all that are laws: what others measured
  // besides does not decide about mathematics.
  bool held() const;
  bool laws_held() const;
  // Whether the verdict rests on the figure.
  bool Decides(const Figure& figure) const {
    return !figure.expected.empty() && figure.kind.value_or(kind) <= kind;
  }

 private:
  void Add(Figure figure);
  void SetInterval(const Interval& mean);

  std::optional<StudyKind> next_;
};

// "0.812", or "0.812 [0.790, 0.833]" where there is an interval.
std::string ShowInterval(const Interval& interval);

struct StudyRequest {
  bool full = false;               // enough seeds and steps for a verdict
  double effort = 1;               // share of the training steps: for tests
  std::vector<std::string> texts;  // of studies that read; empty: made-up ones
  // Folders of trained models that studies look at beside those they train: one
  // of several heads and its twin of one; empty: none. And what these read.
  std::filesystem::path model, twin;
  std::vector<std::string> reading;
  ProgressCallback progress;
  std::stop_token stop;  // Error(kCancelled) soon after
};

struct Study {
  const char* name;
  const char* claim;
  const char* expectation;
  StudyKind kind;
  StudyResult (*run)(Context& context, const StudyRequest& request);
  bool trained = false;  // what is found depends on seeds and steps
  // Whether it runs wherever the context does; else on the CPU alone.
  bool any_device = false;
};

// In the order of `headwise study --list`.
std::span<const Study* const> Studies();

// Throws Error(kNotFound) with the nearest known name.
const Study& FindStudy(std::string_view name);

// Runs it and takes the time. Throws Error(kUnsupported) for a context on a
// device that the study does not run on.
StudyResult RunStudy(const Study& study, Context& context,
                     const StudyRequest& request = {});

// One per file of the same name.
extern const Study kAssignedStudy;
extern const Study kAveragingStudy;
extern const Study kContentStudy;
extern const Study kConvolutionStudy;
extern const Study kCostStudy;
extern const Study kEffectiveHeadsStudy;
extern const Study kEmergenceStudy;
extern const Study kGatesStudy;
extern const Study kGradientFlowStudy;
extern const Study kHeadCountStudy;
extern const Study kHeadDropoutStudy;
extern const Study kKLookupStudy;
extern const Study kKvCacheStudy;
extern const Study kLayersStudy;
extern const Study kLimitsStudy;
extern const Study kMixtureStudy;
extern const Study kNegativeStudy;
extern const Study kNormaliseOrderStudy;
extern const Study kOnePerLayerStudy;
extern const Study kOneVsManyStudy;
extern const Study kOperatorStudy;
extern const Study kPruneCurveStudy;
extern const Study kRankStudy;
extern const Study kRedundancyStudy;
extern const Study kSpecialiseStudy;
extern const Study kSubspacesStudy;
extern const Study kSymmetryStudy;
extern const Study kTastyStudy;
extern const Study kTeacherStudentStudy;
extern const Study kTeamStudy;

}  // namespace headwise
