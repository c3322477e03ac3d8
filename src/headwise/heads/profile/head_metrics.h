// Adding up the metrics of one head over one sequence, from a call's row
// results. Which metrics there are is decided here; what they mean is told in
// definitions.cc.
#pragma once

#include <string>
#include <vector>

#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/site_results.h"
#include "headwise/ops/head_rows/head_rows.h"

namespace headwise {

struct HeadRow;

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

  // What HeadRowTallies made of one head: [kHeadSlots, kTallyNumbers].
  void Add(const double* tallies, size_t index) const;

 private:
  struct Sums;

  void Name(int slot, const std::string& name) {
    names_[slot] = prefix_ + name;
  }
  void NameTargets(int first, const std::string& name, int forms);
  void NameOffsets(int most, int forms);
  void AddRow(HeadRow& row, const double* kept, Sums& sums) const;
  void AddOffsets(const HeadRow& row, const double* kept, Sums& sums) const;

  std::string prefix_;
  MetricSet metrics_;
  std::vector<std::string> names_;            // by slot; "": not of the set
  std::vector<std::vector<Tally>*> tallies_;  // the same; null
};

}  // namespace headwise
