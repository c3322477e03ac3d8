// One metric of one head, added up over sequences so that two tallies add to
// the tally of both. Tokens of a sequence are correlated, so the interval
// rests on sequences: each gives one weighted sum and one weight.
#pragma once

#include <cstdint>

namespace headwise {

struct Estimate {
  double mean = 0;  // Σx / Σw; NaN where nothing was counted
  // 95 % interval of the ratio, linearised, over sequences; NaN for fewer than
  // two of them.
  double low = 0;
  double high = 0;
  double count = 0;       // Σw: rows, words, cases
  int64_t sequences = 0;  // that contributed
};

// Doubles throughout; merging is addition.
struct Tally {
  double n = 0;   // sequences with w > 0
  double w = 0;   // Σ w
  double x = 0;   // Σ x
  double ww = 0;  // Σ w²
  double wx = 0;  // Σ w·x
  double xx = 0;  // Σ x²

  static constexpr int kNumbers = 6;

  // A sequence's weighted sum and its weight. A weight of 0 adds nothing.
  void Add(double sum, double weight) {
    if (!(weight > 0)) return;
    n += 1;
    w += weight;
    x += sum;
    ww += weight * weight;
    wx += weight * sum;
    xx += sum * sum;
  }
  void Merge(const Tally& other) {
    n += other.n;
    w += other.w;
    x += other.x;
    ww += other.ww;
    wx += other.wx;
    xx += other.xx;
  }
  bool empty() const { return !(w > 0); }

  Estimate Ratio() const;

  friend bool operator==(const Tally&, const Tally&) = default;
};

}  // namespace headwise
