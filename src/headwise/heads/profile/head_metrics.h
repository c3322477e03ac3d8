// Adding up the metrics of one head over one sequence, from a call's row
// results. Which metrics there are is decided here; what they mean is told in
// definitions.cc.
#pragma once

#include <string>
#include <vector>

#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/site_results.h"

namespace headwise {

// The forms of a metric about a set of target keys; −1: this form is not kept.
struct TargetSlots {
  int score = -1;           // mean mass on the targets
  int chance = -1;          // the same of uniform attention
  int content = -1;         // mass / c, weight c; c is the mass off the sinks
  int content_chance = -1;  // of uniform attention off the sinks
  int argmax = -1;          // share of rows whose largest key is a target
  int content_argmax = -1;  // the same outside the sinks, weight c
};

class HeadMetrics {
 public:
  // Metrics are named with `prefix` before: "", "repeats.".
  HeadMetrics(const std::string& prefix, MetricSet metrics);

  // Makes room for every metric, so that threads may then add to different
  // heads. The profile must stay where it is.
  void Prepare(Profile& profile);

  // Head h of the call is head `index` of the profile. Different heads may be
  // added at the same time.
  void Add(const SiteResults& results, int64_t h, size_t index) const;

 private:
  struct Sums;
  struct Row;

  enum Form : int { kScore = 1, kContent = 2, kArgmax = 4, kContentArgmax = 8 };

  // Forms of the offsets' metrics. Slots stand form by form, so that a row
  // adds to all offsets of a form at once.
  enum OffsetForm : int {
    kOffsetMass,
    kOffsetChance,
    kOffsetArgmax,
    kOffsetContent,
    kOffsetContentChance,
    kOffsetContentArgmax,
    kOffsetForms,
  };

  int Slot(const std::string& name);
  int OffsetSlot(OffsetForm form, int64_t k) const {
    return first_offset_ + form * (2 * most_offset_ + 1) + static_cast<int>(k) +
           most_offset_;
  }
  TargetSlots Targets(const std::string& name, int forms);
  void AddCoreSlots();
  void AddOffsetSlots(int most, int forms);
  void AddRow(Row& row, Sums& sums) const;
  void AddShape(const Row& row, Sums& sums) const;
  void AddConfidence(const Row& row, Sums& sums) const;
  void AddOffsets(const Row& row, Sums& sums) const;
  void FinishOffsets(Sums& sums) const;
  void AddKeys(const Row& row, Sums& sums) const;
  void AddRepeats(const Row& row, Sums& sums) const;
  void AddRare(const Row& row, Sums& sums) const;
  void AddMonotone(const Row& row, Sums& sums) const;

  std::string prefix_;
  std::vector<std::string> names_;
  std::vector<std::vector<Tally>*> tallies_;  // one a name
  MetricSet metrics_;
  int content_ = -1, confidence_ = -1;
  int entropy_ = -1, normalised_ = -1, max_ = -1, broad_ = -1;
  int distance_ = -1, argmax_distance_ = -1;
  int first_offset_ = -1, most_offset_ = 0, offset_forms_ = 0;
  TargetSlots local_, first_, last_, sink_, delimiter_, cls_, separator_,
      punctuation_, duplicate_, induction_, rarest_, rare_, monotone_,
      source_end_;
};

}  // namespace headwise
