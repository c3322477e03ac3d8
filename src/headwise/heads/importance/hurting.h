// Heads that hurt: closing them lowers the loss, by more than next to nothing,
// chosen on one half of the sequences and confirmed on the other. And what may
// be said where none is found: that none hurts is a finding, too, and needs a
// text that would have shown one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/importance/objective.h"
#include "headwise/heads/importance/statistics.h"
#include "headwise/loss.h"
#include "headwise/rank.h"

namespace headwise {

struct HurtingEvidence {
  LossKind loss = LossKind::kNextToken;
  // Δ of summed losses, [heads][sequences]; predictions of each sequence; and
  // the heads' Δloss over all of them.
  std::span<const std::vector<double>> deltas;
  std::span<const double> weights;
  std::span<const Interval> intervals;
  double least = 0;       // a head hurts by more than this
  double resolution = 0;  // the least size that a text must show
  int64_t replicates = 2000;
  uint64_t seed = 0;
};

Hurting FindHurting(const HurtingEvidence& evidence);

// "none hurts (4096 predictions, …)", "2 hurt", "whether any hurts was not
// tested: …", "whether any hurts cannot be tested: …"
std::string Describe(const Hurting& hurting);

}  // namespace headwise
