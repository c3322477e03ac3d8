// What kind of head each is, from what closing it does: alone, in pairs, and
// by what it looks like.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "headwise/heads/importance/statistics.h"
#include "headwise/loss.h"
#include "headwise/rank.h"

namespace headwise {

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
