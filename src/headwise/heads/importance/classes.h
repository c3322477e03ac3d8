// What kind of head each is, from what closing it does: alone, in pairs, and
// by what it looks like.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "headwise/heads/importance/statistics.h"

namespace headwise {

// In order of precedence. A quiet head is one whose Δloss is as good as 0: the
// interval's ends are below 1 % of the loss and it holds 0, or |Δ| is below
// 0.1 % of the loss.
enum class HeadClass : uint8_t {
  kCritical,   // the lower end of Δloss is above 1 % of the loss
  kNegative,   // Δloss < 0 by more than a least size, on two splits
  kRedundant,  // quiet, and another head has the same pattern
  kBackup,     // closing it with another costs more than both apart
  kNoise,      // quiet, and no role
  kAuxiliary,  // none of these
};
const char* Name(HeadClass kind);
const char* Describe(HeadClass kind);

inline constexpr double kCriticalShare = 0.01;
inline constexpr double kNegligibleShare = 0.001;

// One entry a head; empty: not known, and the class it would give is not given.
struct ClassEvidence {
  double scale = 1;  // the loss that shares are taken of
  std::span<const Interval> delta;
  std::vector<bool> negative;
  std::vector<bool> has_twin;
  std::vector<bool> backup;
  std::vector<bool> has_role;
};

bool IsQuiet(const Interval& delta, double scale);
std::vector<HeadClass> Classify(const ClassEvidence& evidence);

}  // namespace headwise
