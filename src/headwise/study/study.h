// Studies: every claim about multi-head attention as something that runs and
// says whether it held. One file each, with claim, expectation and kind at its
// top; Studies() lists them, RunStudy() runs one. Drawing is report/'s work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/importance/statistics.h"
#include "headwise/progress.h"
#include "headwise/study/picture.h"
#include "headwise/study/verdict.h"

namespace headwise {

// A text that models were trained on.
struct StudyTextRecord {
  std::string name;       // what there is of it
  std::string hash;       // of its bytes, their split and the tokenizer
  std::string tokenizer;  // whose
};

struct StudyResult {
  std::vector<Figure> figures;
  std::vector<StudyTable> tables;
  std::vector<Picture> pictures;
  std::vector<uint64_t> seeds;
  std::string remark;  // what a reader should take along, or ""
  double seconds = 0;
  // Set by RunStudy: of the study, how it was run, the steps it may take.
  StudyKind kind = StudyKind::kHypothesis;
  VerdictRules rules;
  std::vector<std::string> steps;
  std::optional<StudyTextRecord> text;

  // value ≤ limit, value ≥ limit, |value − want| ≤ tolerance, of one number:
  // mathematics, or what no interval can be given of. NaN never holds.
  void AtMost(std::string name, double value, double limit);
  void AtLeast(std::string name, double value, double limit);
  void Near(std::string name, double value, double want, double tolerance);
  // The same for a mean over seeds (OverSeeds); its whole interval is judged.
  void AtMost(std::string name, const SeedMean& mean, double limit);
  void AtLeast(std::string name, const SeedMean& mean, double limit);
  void Near(std::string name, const SeedMean& mean, double want,
            double tolerance);
  // That nothing differs: |mean| ≤ margin, which a reader would call nothing.
  // Its whole interval must lie within.
  void WithinMargin(std::string name, const SeedMean& mean, double margin);
  // Of what nothing is expected but to be a number.
  void Report(std::string name, double value);
  void Report(std::string name, const SeedMean& mean);

  // Of the figure just added: its interval over held-out sequences, told beside
  // it; and what guessing and the best possible model would give: a figure
  // within 5 % of either end decides nothing.
  void OverSequences(const Interval& interval);
  void Between(double chance, double best);

  // Figures from now on are of this kind, where a study has several.
  void Expect(StudyKind of_next) { next_ = of_next; }
  // Figures from now on are of something that must have formed in every model,
  // by a floor stated beforehand: one a seed. Else they are NOT MEASURED. The
  // check itself is a figure, which does not decide. EndFormed: they no longer
  // are.
  void Formed(const std::string& what, const SeedMean& scores, double floor);
  void EndFormed() { not_formed_.clear(); }

  // Figures from now on are of models that were given, one of a kind: told with
  // what is expected, but no verdict rests on them.
  void InformOnly() { information_ = true; }

  // Whether the verdict rests on the figure: of a law only on laws, since what
  // others measured besides does not decide about mathematics.
  bool Decides(const Figure& figure) const {
    return !figure.expected.empty() && !figure.information &&
           KindOf(figure) <= kind;
  }
  Judgement JudgementOf(const Figure& figure) const {
    return Judge(figure, KindOf(figure), rules);
  }
  // The weakest word among the figures that decide.
  Verdict verdict() const;
  // No figure of a law is beside what the law says.
  bool laws_held() const;

 private:
  StudyKind KindOf(const Figure& figure) const {
    return figure.kind.value_or(kind);
  }
  void Add(std::string name, double value, std::string expected, double least,
           double most);
  void SetInterval(const SeedMean& mean);

  std::optional<StudyKind> next_;
  bool information_ = false;
  std::string not_formed_;
};

// "0.812", or "0.812 [0.790, 0.833]" where there is an interval.
std::string ShowInterval(const Interval& interval);

// What parts of a study leave for its record; from any thread.
class StudyNotes {
 public:
  void SetText(StudyTextRecord text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  std::optional<StudyTextRecord> text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  void AddSteps(std::string steps) {
    const std::lock_guard lock(mutex_);
    steps_.insert(std::move(steps));
  }
  std::vector<std::string> steps() const {
    const std::lock_guard lock(mutex_);
    return {steps_.begin(), steps_.end()};
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> steps_;
  std::optional<StudyTextRecord> text_;
};

struct StudyRequest {
  bool full = false;                  // enough seeds and steps for a verdict
  int64_t seed_count = 0;             // 0: 1, or of a full study 5
  std::vector<uint64_t> chosen = {};  // these seeds instead
  double effort = 1;                  // share of the training steps: for tests
  std::vector<std::string> texts;  // of studies that read; empty: made-up ones
  // Folders of trained models that studies look at beside those they train: one
  // of several heads and its twin of one; empty: none. And what these read.
  std::filesystem::path model, twin;
  std::vector<std::string> reading;
  // Where head-dropout, gates, mixture, negative, removal and translators
  // keep the numbers of each training, which then is not done again; empty:
  // nowhere.
  std::filesystem::path keep = {};
  OnProgress progress;
  std::stop_token stop;  // Error(kCancelled) soon after
  // Set by RunStudy: the seeds to take, and where StudySteps leaves its steps.
  std::vector<uint64_t> seeds = {};
  std::shared_ptr<StudyNotes> notes = {};
};

// What was changed since a study was first written.
struct StudyChange {
  const char* first;    // what was expected or done, and what came of it
  const char* changed;  // what is now
  const char* why;
  const char* commit;  // the subject of the one that changed it
  // Else before any result of it had been seen: told, but no reason to doubt.
  bool after_result = true;
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
  // One run takes more than ten minutes of a GPU: three seeds are enough.
  bool slow = false;
  // Raise it whenever models, data or what is measured change: what was
  // recorded of the study is then stale.
  int revision = 1;
  // Oldest first. What was changed after a result makes a study EXPLORATORY but
  // on fresh seeds.
  std::span<const StudyChange> history = {};
  // Seeds that nobody had looked at when they were written down here, after the
  // last change; a full run takes these instead of 1 … N.
  std::span<const uint64_t> fresh_seeds = {};

  // Five that nobody has run, to repeat a verdict on (`--replicate`): a
  // thousand after the fresh ones.
  std::vector<uint64_t> replicate_seeds() const;

  int64_t seeds_needed() const { return slow ? 3 : 5; }
  bool changed_after_result() const {
    return std::ranges::any_of(history, &StudyChange::after_result);
  }
};

// Fresh seeds of a study: five from kFirst on.
template <uint64_t kFirst>
inline constexpr uint64_t kFreshSeeds[] = {kFirst, kFirst + 1, kFirst + 2,
                                           kFirst + 3, kFirst + 4};

// In the order of `headwise study --list`.
std::span<const Study* const> Studies();

// Throws Error(kNotFound) with the nearest known name.
const Study& FindStudy(std::string_view name);

// The seeds of a run: those chosen; else 1, or of a full one as many as a
// verdict needs; seed_count where that is given. Fresh seeds first, where the
// study has them.
std::vector<uint64_t> SeedsOf(const Study& study, const StudyRequest& request);

// 16 hexadecimal digits of all that a verdict depends on but the run: claim,
// expectations with their thresholds, steps, seeds, revision.
std::string StudyHash(const Study& study, const StudyResult& result);

// What a word of the result needs.
VerdictRules RulesOf(const Study& study, const StudyResult& result, bool full);

// Runs it and takes the time. Throws Error(kUnsupported) for a context on a
// device that the study does not run on.
StudyResult RunStudy(const Study& study, Context& context,
                     const StudyRequest& request = {});

// The hash of a run like this before it is run, given models apart: a step of
// each training shows what a study expects.
std::string ExpectedHash(const Study& study, Context& context,
                         const StudyRequest& request = {});

// One per file of the same name.
extern const Study kAssignedStudy;
extern const Study kAveragingStudy;
extern const Study kContentStudy;
extern const Study kConvolutionStudy;
extern const Study kCostStudy;
extern const Study kEffectiveHeadsStudy;
extern const Study kEmergenceStudy;
extern const Study kFreezingStudy;
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
extern const Study kPositionsStudy;
extern const Study kPruneCurveStudy;
extern const Study kRankStudy;
extern const Study kRaspStudy;
extern const Study kRecipeStudy;
extern const Study kRedundancyStudy;
extern const Study kRemovalStudy;
extern const Study kSpecialiseStudy;
extern const Study kSubspacesStudy;
extern const Study kSupervisionStudy;
extern const Study kSymmetryStudy;
extern const Study kTastyStudy;
extern const Study kTeacherStudentStudy;
extern const Study kTeamStudy;
extern const Study kTranslatorsStudy;

}  // namespace headwise
