// Door: slot_tallies.h.
#include "headwise/heads/profile/slot_tallies.h"

#include <algorithm>
#include <array>
#include <bit>

#include "headwise/heads/profile/rows/head_rows.h"

namespace headwise {
namespace {

using SlotNumbers = std::array<double, Tally::kNumbers>;
static_assert(kTallyNumbers == Tally::kNumbers);

Tally TallyAt(const double* numbers, size_t slot) {
  const double* t = numbers + slot * kTallyNumbers;
  return {t[0], t[1], t[2], t[3], t[4], t[5]};
}

}  // namespace

SlotTallies::SlotTallies(const std::string& prefix, Profile& profile) {
  for (const std::string& name : SlotNames()) {
    tallies_.push_back(&profile.Tallies(prefix + name));
  }
}

void SlotTallies::Load(size_t head, double* numbers) const {
  for (const std::vector<Tally>* tallies : tallies_) {
    const auto from = std::bit_cast<SlotNumbers>((*tallies)[head]);
    numbers = std::copy(from.begin(), from.end(), numbers);
  }
}

void SlotTallies::Store(const double* numbers, size_t head) const {
  for (size_t slot = 0; slot < tallies_.size(); ++slot) {
    (*tallies_[slot])[head] = TallyAt(numbers, slot);
  }
}

void SlotTallies::Add(const double* numbers, size_t head) const {
  for (size_t slot = 0; slot < tallies_.size(); ++slot) {
    (*tallies_[slot])[head].Merge(TallyAt(numbers, slot));
  }
}

}  // namespace headwise
