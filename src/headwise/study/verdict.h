// What a figure says about what was expected of it, in four words. A figure is
// judged by its whole 95 % interval, never by its middle; what a claim is worth
// is the weakest word among the figures it rests on.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/base/intervals.h"
#include "headwise/loss.h"

namespace headwise {

// What an expectation rests on, firmest first.
enum class StudyKind {
  kLaw,         // mathematics: must hold
  kLiterature,  // others measured it
  kHypothesis,  // open
};
const char* Name(StudyKind kind);

// The further down, the less a claim is worth that rests on it: a claim takes
// the last of its figures' words.
enum class Verdict {
  kHeld,         // the whole interval is as expected
  kExploratory,  // decided, but what is expected was chosen after a result
  kUndecided,    // neither
  kNotMeasured,  // the models have not what the figure is about
  kRefuted,      // no value of the interval is as expected
};
// "HELD", "EXPLORATORY", "UNDECIDED", "NOT MEASURED", "REFUTED"
const char* Name(Verdict verdict);

// The mean over seeds and its 95 % interval, ±∞ for one seed: Student's t, kept
// within what the figure can be at all.
struct SeedMean : Interval {
  std::vector<double> values = {};  // of each seed, in their order
  Bounds bounds = {};
};

// One number that was measured, and what was expected of it.
struct Figure {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  std::string name;
  double value = 0;
  std::string expected;  // "": nothing; it is only reported
  double least = -kInfinity, most = kInfinity;  // what is expected
  // Measured once a seed; value is their mean and low to high its 95 %
  // interval, −∞ to ∞ where one seed gives none. Else it is one number.
  bool over_seeds = false;
  double low = -kInfinity, high = kInfinity;
  std::vector<double> values = {};  // of each seed
  Bounds bounds = {};               // what it can be, and its interval with it
  // Over held-out sequences of the same models: told, never decides.
  std::optional<Interval> sequences = {};
  // What guessing gives and what nothing exceeds, where the study says so.
  std::optional<double> chance = {}, best = {};
  std::optional<StudyKind> kind = {};  // where it is not the study's
  bool information = false;  // of a model that was given: never decides
  // What did not form in the models that it would be taken from, or "".
  std::string not_formed = {};

  // The value alone. NaN is not.
  bool as_expected() const { return value >= least && value <= most; }
};

// What a word needs: of the study and of how it was run.
struct VerdictRules {
  bool trained = false;      // what is found depends on seeds and steps
  bool full = true;          // else of trained figures nothing is decided
  int64_t seeds = 1;         // of the run
  int64_t seeds_needed = 5;  // of what is trained
  bool exploratory = false;  // changed after a result; no fresh seeds since
};

struct Judgement {
  Verdict verdict = Verdict::kUndecided;
  std::string why;  // of a word that the interval alone does not give, or ""
};

// `kind`: the figure's, or its study's. One number is a point where it is
// mathematics: of a law, or of a study that trains nothing.
Judgement Judge(const Figure& figure, StudyKind kind,
                const VerdictRules& rules);

// The last of the words; UNDECIDED of none.
Verdict Weakest(std::span<const Verdict> verdicts);

}  // namespace headwise
