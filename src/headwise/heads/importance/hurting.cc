// Door: hurting.h.
#include "headwise/heads/importance/hurting.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace headwise {
namespace {

// Expected share of false discoveries.
constexpr double kFalseDiscoveries = 0.05;
// Two in each half.
constexpr size_t kLeastSequences = 4;

// Every second sequence, from `first` on.
std::vector<double> Half(std::span<const double> values, size_t first) {
  std::vector<double> half;
  for (size_t i = first; i < values.size(); i += 2) half.push_back(values[i]);
  return half;
}

double SmallestSeen(std::span<const Interval> intervals) {
  double widest = 0;
  for (const Interval& one : intervals) {
    if (one.low < 0) widest = std::max(widest, (one.high - one.low) / 2);
  }
  return widest;
}

// What the answer that none hurts is worth.
std::string RestsOn(const Hurting& hurting) {
  if (hurting.smallest_seen == 0) {
    return fmt::format("{:.0f} predictions, every head's interval above 0",
                       hurting.predictions);
  }
  return fmt::format(
      "{:.0f} predictions, intervals that tell {:.2g} nats from 0 of every "
      "head",
      hurting.predictions, hurting.smallest_seen);
}

// Selected on the even sequences, confirmed on the odd ones.
std::vector<NegativeHead> Confirmed(const HurtingEvidence& evidence) {
  const std::vector<double> even = Half(evidence.weights, 0);
  const std::vector<double> odd = Half(evidence.weights, 1);
  std::vector<double> p;
  for (const std::vector<double>& delta : evidence.deltas) {
    p.push_back(BelowZeroP(Half(delta, 0), even));
  }
  const std::vector<bool> chosen = BenjaminiHochberg(p, kFalseDiscoveries);
  std::vector<size_t> selected;
  std::vector<double> confirm;
  for (size_t h = 0; h < chosen.size(); ++h) {
    if (!chosen[h]) continue;
    selected.push_back(h);
    confirm.push_back(BelowZeroP(Half(evidence.deltas[h], 1), odd));
  }
  const std::vector<bool> held = BenjaminiHochberg(confirm, kFalseDiscoveries);
  const PairedBootstrap first(even, evidence.replicates, evidence.seed);
  const PairedBootstrap second(odd, evidence.replicates, evidence.seed);
  const auto hurts = [&](const Interval& change) {
    return change.high < 0 && change.value < -evidence.least;
  };
  std::vector<NegativeHead> heads;
  for (size_t i = 0; i < selected.size(); ++i) {
    if (!held[i]) continue;
    const std::vector<double>& delta = evidence.deltas[selected[i]];
    const NegativeHead head = {selected[i], first.Ratio(Half(delta, 0)),
                               second.Ratio(Half(delta, 1))};
    if (hurts(head.selection) && hurts(head.confirmation)) {
      heads.push_back(head);
    }
  }
  return heads;
}

std::string TooShort(const Hurting& hurting, const HurtingEvidence& evidence) {
  const size_t count = hurting.undecided.size();
  return fmt::format(
      "none is seen to, but this text ({} sequences) is too short to tell it "
      "of {} of {} heads",
      evidence.weights.size(), count, evidence.deltas.size());
}

}  // namespace

const char* Name(HurtAnswer answer) {
  switch (answer) {
    case HurtAnswer::kNone:
      return "none";
    case HurtAnswer::kSome:
      return "some";
    case HurtAnswer::kNotTested:
      return "not-tested";
    case HurtAnswer::kNotTestable:
      return "not-testable";
  }
  return "?";
}

Hurting FindHurting(const HurtingEvidence& evidence) {
  Hurting hurting;
  const size_t sequences = evidence.weights.size();
  if (evidence.loss == LossKind::kEmbeddingCosine) {
    hurting.answer = HurtAnswer::kNotTestable;
    hurting.reason =
        "the loss is the distance from the whole model's own output, which is "
        "0 with every head open and cannot be lowered";
    return hurting;
  }
  if (sequences < kLeastSequences) {
    hurting.reason =
        fmt::format("that takes at least {} sequences, and there {} {}",
                    kLeastSequences, sequences == 1 ? "is" : "are", sequences);
    return hurting;
  }
  hurting.heads = Confirmed(evidence);
  hurting.predictions =
      std::accumulate(evidence.weights.begin(), evidence.weights.end(), 0.0);
  hurting.smallest_seen = SmallestSeen(evidence.intervals);
  std::vector<bool> found(evidence.deltas.size(), false);
  for (const NegativeHead& head : hurting.heads) found[head.head] = true;
  for (size_t h = 0; h < evidence.intervals.size(); ++h) {
    if (found[h] || evidence.intervals[h].low >= -evidence.resolution) continue;
    hurting.undecided.push_back(h);
  }
  hurting.reason.clear();
  if (!hurting.heads.empty()) {
    hurting.answer = HurtAnswer::kSome;
  } else if (hurting.undecided.empty()) {
    hurting.answer = HurtAnswer::kNone;
  } else {
    hurting.reason = TooShort(hurting, evidence);
  }
  return hurting;
}

std::string Describe(const Hurting& hurting) {
  const size_t count = hurting.heads.size();
  switch (hurting.answer) {
    case HurtAnswer::kNone:
      return fmt::format("none hurts ({})", RestsOn(hurting));
    case HurtAnswer::kSome:
      return (count == 1 ? "1 hurts" : fmt::format("{} hurt", count)) +
             (hurting.undecided.empty()
                  ? ""
                  : fmt::format(", of {} more the text is too short to tell",
                                hurting.undecided.size()));
    case HurtAnswer::kNotTested:
      return "whether any hurts was not tested: " + hurting.reason;
    case HurtAnswer::kNotTestable:
      return "whether any hurts cannot be tested: " + hurting.reason;
  }
  return "";
}

}  // namespace headwise
