// Where a profile holds the tallies of each slot (metrics.h).
#pragma once

#include <string>
#include <vector>

#include "headwise/heads/profile/metrics.h"
#include "headwise/heads/profile/profile.h"

namespace headwise {

class SlotTallies {
 public:
  // Makes room for every slot's metric, named with `prefix` before: "",
  // "repeats.". The profile must stay where it is.
  SlotTallies(const std::string& prefix, Profile& profile);

  // A head's numbers, [kHeadSlots, Tally::kNumbers], and back.
  void Load(size_t head, double* numbers) const;
  void Store(const double* numbers, size_t head) const;
  void Add(const double* numbers, size_t head) const;

 private:
  std::vector<std::vector<Tally>*> tallies_;  // by slot
};

}  // namespace headwise
