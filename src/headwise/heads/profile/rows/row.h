// One row's part of every metric, for the host and for kernels alike.
#pragma once

#include <cmath>
#include <cstdint>

#include "headwise/heads/profile/rows/head_rows.h"

namespace headwise {

// Results of a call, and pointers to where they lie.
struct RowResults {
  bool cross = false, causal = false;
  int before = 0, after = 0;        // of the band
  int64_t heads = 0, rows = 0;      // of the call
  int64_t features = kKeyFeatures;  // numbers from row to row
  int64_t pairs = 0;
  const float *entropy = nullptr, *max = nullptr, *distance = nullptr;
  const float *kept_max = nullptr, *below_end = nullptr;
  const int32_t *argmax = nullptr, *kept_argmax = nullptr;
  const float *feature_mass = nullptr, *label_mass = nullptr, *band = nullptr;
  const RowNotes* notes = nullptr;
  const int64_t* pair_offsets = nullptr;
  const int32_t *pair_split = nullptr, *pair_keys = nullptr;
  const float* pair_mass = nullptr;
};

// Notes on a sequence's keys.
struct KeyNotes {
  const uint8_t *special = nullptr, *punctuation = nullptr, *rare = nullptr;
  const int32_t* ids = nullptr;
  int64_t count = 0;
};

// A sink of one head in one sequence, and its mass by query.
struct OwnSink {
  int32_t key;
  const float* mass;
};

// Query i of a sequence, row t of head h, that counts.
struct HeadRow {
  const RowResults* from = nullptr;
  const RowNotes* notes = nullptr;
  KeyNotes keys;
  const OwnSink* own = nullptr;
  int own_count = 0;
  int64_t h = 0, t = 0, i = 0;
  double visible = 0;
  double content = 0;          // mass off the sinks
  double content_visible = 0;  // keys seen off the sinks
  double chance = 0;           // a key's share were all alike
  double content_chance = 0;   // and of the mass off the sinks
  int32_t argmax = -1, kept_argmax = -1;

  HEADWISE_ROW_HD int64_t at() const { return h * from->rows + t; }
  HEADWISE_ROW_HD bool cross() const { return from->cross; }
  HEADWISE_ROW_HD bool sees_first() const { return notes->low == 0; }
  HEADWISE_ROW_HD float log_visible() const { return notes->log_visible; }
  HEADWISE_ROW_HD float entropy() const { return from->entropy[at()]; }
  HEADWISE_ROW_HD float largest() const { return from->max[at()]; }
  HEADWISE_ROW_HD float distance() const { return from->distance[at()]; }
  HEADWISE_ROW_HD double first_mass() const { return feature(kFirstKey); }
  // The share of the key k places away, which the band has.
  HEADWISE_ROW_HD float Share(int64_t k) const { return band()[k]; }
  HEADWISE_ROW_HD double feature(KeyFeature f) const {
    return from->feature_mass[at() * from->features + f];
  }
  HEADWISE_ROW_HD const float* band() const {
    return from->band + at() * (from->before + from->after + 1) + from->before;
  }
  HEADWISE_ROW_HD bool Sees(int64_t j) const {
    return j >= notes->low && j < notes->high;
  }
  HEADWISE_ROW_HD bool IsOwnSink(int64_t j) const {
    for (int n = 0; n < own_count; ++n) {
      if (own[n].key == j) return true;
    }
    return false;
  }
  HEADWISE_ROW_HD bool IsSink(int64_t j) const {
    return j == 0 || keys.special[j] != 0 || IsOwnSink(j);
  }
  // Mass on this head's own sinks that hold, and how many do.
  template <typename Holds>
  HEADWISE_ROW_HD int32_t OwnSinks(const Holds& holds, double* mass) const {
    int32_t found = 0;
    for (int n = 0; n < own_count; ++n) {
      if (!Sees(own[n].key) || !holds(own[n].key)) continue;
      *mass += own[n].mass[i];
      ++found;
    }
    return found;
  }
};

// The largest share, a special last key left out.
HEADWISE_ROW_HD double LargestBeforeEnd(const HeadRow& row) {
  const RowResults& from = *row.from;
  const int64_t last = row.keys.count - 1;
  const bool at_end = row.argmax == last && row.keys.special[last] != 0;
  if (!at_end) return from.max[row.at()];
  if (row.notes->separator.seen > kSeparatorsTold) {
    return from.below_end[row.at()];
  }
  double most = from.kept_max[row.at()];
  const auto offer = [&](double mass) { most = most < mass ? mass : most; };
  offer(row.feature(kFirstKey));
  for (int n = 0; n < row.own_count; ++n) {
    if (row.Sees(row.own[n].key)) offer(row.own[n].mass[row.i]);
  }
  if (row.notes->separator.seen == kSeparatorsTold) {
    offer(row.feature(kSeparatorKey) - row.feature(kLastKey));
  }
  return most;
}

// A number of a row. Row: HeadRow, or what else has its names.
template <RowSum kSum, class Row>
HEADWISE_ROW_HD double NumberOf(const Row& row) {
  static_assert(IsNumber(kSum));
  if constexpr (kSum == RowSum::kEntropy) {
    return row.entropy();
  } else if constexpr (kSum == RowSum::kEntropyShare) {
    const double entropy = row.entropy();
    return entropy / row.log_visible();
  } else if constexpr (kSum == RowSum::kLargest) {
    return row.largest();
  } else if constexpr (kSum == RowSum::kLargestBeforeEnd) {
    return LargestBeforeEnd(row);
  } else if constexpr (kSum == RowSum::kDistance) {
    return row.distance();
  } else if constexpr (kSum == RowSum::kLargestDistance) {
    return fabs(static_cast<double>(row.i - row.argmax));
  } else {
    static_assert(kSum == RowSum::kContent);
    return row.content;
  }
}

// The keys around a query, and whether they are seen and kept.
struct NearKeys {
  const HeadRow& row;

  HEADWISE_ROW_HD bool Has(int k) const {
    return k >= -row.from->before && k <= row.from->after &&
           row.Sees(row.i + k);
  }
  HEADWISE_ROW_HD double Share(int k) const { return row.Share(k); }
  HEADWISE_ROW_HD bool IsKept(int k) const { return !row.IsSink(row.i + k); }
};

HEADWISE_ROW_HD bool IsFinite(float x) { return fabsf(x) <= 3.4028234e38f; }

// Adds what a row gives the key k places away, which its band has; false where
// it does not see the key.
template <class Row, class Count>
HEADWISE_ROW_HD bool AddOffset(const Row& row, int k, Count& rows, double& mass,
                               double& chance, Count& argmax) {
  const int64_t j = row.i + k;
  if (!row.Sees(j)) return false;
  rows += 1;
  mass += row.Share(k);
  chance += row.chance;
  argmax += row.argmax == j ? 1 : 0;
  return true;
}

// Adds rows to sums, which have Add(slot, value, weight).
template <class Sums>
struct RowAdder {
  Sums& sums;

  // A row's mass on `seen` targets of all that it sees.
  template <class Row>
  HEADWISE_ROW_HD void AddMass(const TargetSlots& slots, double mass,
                               double seen, const Row& row) const {
    sums.Add(slots.score, mass, 1);
    sums.Add(slots.chance, seen / row.visible, 1);
  }
  // Mass on targets off the sinks.
  HEADWISE_ROW_HD void AddContent(const TargetSlots& slots, double mass,
                                  double seen, const HeadRow& row) const {
    sums.Add(slots.content, mass, row.content);
    sums.Add(slots.content_chance, row.content * seen / row.content_visible,
             row.content);
  }

  // Numbers from metric kMetric on, those of the core alone, and the first key.
  template <bool kCore, int kMetric = 0, class Row>
  HEADWISE_ROW_HD void AddNumbers(const Row& row) const {
    if constexpr (kMetric < kHeadMetricCount) {
      constexpr RowSum kSum = kHeadMetrics[kMetric].rows.sum;
      if constexpr (IsNumber(kSum) &&
                    (kHeadMetrics[kMetric].rows.core || !kCore)) {
        constexpr int kSlot = kFirstSlots.of[kMetric];
        constexpr double kAbove = kHeadMetrics[kMetric].rows.above;
        if (!(IsOfSelfAttention(kSum) && row.cross())) {
          const double number = NumberOf<kSum>(row);
          if constexpr (kAbove < Bounds::kInfinity) {
            sums.Add(kSlot, number > kAbove ? 1 : 0, 1);
          } else {
            sums.Add(kSlot, number, 1);
          }
        }
      }
      AddNumbers<kCore, kMetric + 1>(row);
    }
  }
  template <class Row>
  HEADWISE_ROW_HD void AddFirst(const Row& row) const {
    if (!row.sees_first()) return;
    const TargetSlots first = SlotsOf<MetricAt("first")>();
    AddMass(first, row.first_mass(), 1, row);
    sums.Add(first.argmax, row.argmax == 0 ? 1 : 0, 1);
  }

  HEADWISE_ROW_HD void AddEnd(const TargetSlots& end,
                              const HeadRow& row) const {
    const int64_t last = row.keys.count - 1;
    AddMass(end, row.feature(kLastKey), 1, row);
    sums.Add(end.argmax, row.argmax == last ? 1 : 0, 1);
    if (row.IsSink(last)) return;
    AddContent(end, row.feature(kLastKey), 1, row);
    sums.Add(end.content_argmax, row.kept_argmax == last ? row.content : 0,
             row.content);
  }

  HEADWISE_ROW_HD void AddKeys(const HeadRow& row) const {
    const RowResults& from = *row.from;
    const double first = row.feature(kFirstKey);
    const double separator = row.feature(kSeparatorKey);
    const bool sees_first = row.notes->low == 0;
    if (!from.causal && row.notes->high > row.keys.count - 1) {
      if (from.cross) {
        AddEnd(SlotsOf<MetricAt("source-end")>(), row);
      } else {
        AddEnd(SlotsOf<MetricAt("last")>(), row);
      }
    }
    const TargetSlots sink = SlotsOf<MetricAt("sink")>();
    AddMass(sink, 1 - row.content, row.visible - row.content_visible, row);
    sums.Add(sink.argmax, row.argmax >= 0 && row.IsSink(row.argmax) ? 1 : 0, 1);

    // The first token is a delimiter only where it is [CLS].
    const bool cls = !from.causal && sees_first && row.keys.special[0] != 0;
    if (cls) AddMass(SlotsOf<MetricAt("delimiter.cls")>(), first, 1, row);
    if (row.notes->separator.seen > 0) {
      AddMass(SlotsOf<MetricAt("delimiter.sep")>(), separator,
              row.notes->separator.seen, row);
    }
    const RowTargets& marks = row.notes->punctuation;
    const double punctuation = row.feature(kPunctuationKey);
    double own = 0;
    const int32_t own_marks = row.OwnSinks(
        [&](int32_t j) { return row.keys.punctuation[j] != 0; }, &own);
    const TargetSlots mark = SlotsOf<MetricAt("delimiter.punctuation")>();
    const TargetSlots delimiter = SlotsOf<MetricAt("delimiter")>();
    if (marks.seen > 0) AddMass(mark, punctuation, marks.seen, row);
    const int delimiters =
        marks.seen + row.notes->separator.seen + (cls ? 1 : 0);
    if (delimiters > 0) {
      AddMass(delimiter, punctuation + separator + (cls ? first : 0),
              delimiters, row);
    }
    if (marks.content > own_marks) {
      const bool at_first = sees_first && row.keys.punctuation[0] != 0;
      const double mass = punctuation - own - (at_first ? first : 0);
      const double seen = marks.content - own_marks;
      AddContent(mark, mass, seen, row);
      AddContent(delimiter, mass, seen, row);
    }
  }

  HEADWISE_ROW_HD void AddRepeated(const TargetSlots& slots,
                                   const RowTargets& targets, double mass,
                                   double sink_mass, int32_t own_sinks,
                                   const HeadRow& row) const {
    if (targets.seen == 0) return;
    AddMass(slots, mass < 0 ? 0 : mass, targets.seen, row);
    if (targets.content <= own_sinks) return;
    const double off = mass - sink_mass;
    AddContent(slots, off < 0 ? 0 : off, targets.content - own_sinks, row);
  }

  HEADWISE_ROW_HD void AddRepeats(const HeadRow& row) const {
    const RowResults& from = *row.from;
    double duplicate = 0, induction = 0;
    if (from.causal) {
      const float* labels = from.label_mass + row.at() * kLabelChannels;
      // Equal labels hold the query itself too.
      duplicate = labels[kSameToken] - row.band()[0];
      induction = labels[kAfterSameToken];
    } else if (row.notes->pairs >= 0) {
      const int64_t begin = from.pair_offsets[row.notes->pairs];
      const int64_t end = from.pair_offsets[row.notes->pairs + 1];
      const int64_t split = begin + from.pair_split[row.notes->pairs];
      const float* mass = from.pair_mass + row.h * from.pairs;
      for (int64_t n = begin; n < end; ++n) {
        (n < split ? duplicate : induction) += mass[n];
      }
    }
    const int32_t token = row.keys.ids[row.i];
    const auto same = [&](int32_t j) {
      return j < row.i && row.keys.special[j] == 0 && row.keys.ids[j] == token;
    };
    double own = row.notes->low == 0 && same(0) ? row.feature(kFirstKey) : 0;
    const int32_t own_same = row.OwnSinks(same, &own);
    AddRepeated(SlotsOf<MetricAt("duplicate")>(), row.notes->duplicate,
                duplicate, own, own_same, row);
    own = 0;
    const int32_t own_next = row.OwnSinks(
        [&](int32_t j) {
          return j > 0 && row.keys.special[j] == 0 && same(j - 1);
        },
        &own);
    AddRepeated(SlotsOf<MetricAt("induction")>(), row.notes->induction,
                induction, own, own_next, row);
  }

  HEADWISE_ROW_HD void AddRare(const HeadRow& row) const {
    const RowTargets& targets = row.notes->rare;
    if (targets.seen > 0) {
      const TargetSlots rare = SlotsOf<MetricAt("rare.mass")>();
      const double mass = row.feature(kRareKey);
      AddMass(rare, mass, targets.seen, row);
      double own = row.notes->low == 0 && row.keys.rare[0] != 0
                       ? row.feature(kFirstKey)
                       : 0;
      const int32_t sinks =
          row.OwnSinks([&](int32_t j) { return row.keys.rare[j] != 0; }, &own);
      if (targets.content > sinks) {
        AddContent(rare, mass - own, targets.content - sinks, row);
      }
    }
    const int32_t rarest = row.notes->rarest;
    if (rarest < 0) return;
    const TargetSlots slots = SlotsOf<MetricAt("rare.argmax")>();
    AddMass(slots, row.argmax == rarest ? 1 : 0, 1, row);
    if (row.IsSink(rarest)) return;
    AddContent(slots, row.kept_argmax == rarest ? row.content : 0, 1, row);
  }

  // Mass around the diagonal of cross-attention.
  HEADWISE_ROW_HD void AddMonotone(const HeadRow& row) const {
    const RowResults& from = *row.from;
    if (row.notes->pairs < 0) return;
    const int64_t begin = from.pair_offsets[row.notes->pairs];
    const int64_t end = from.pair_offsets[row.notes->pairs + 1];
    double near = 0, near_content = 0, seen = 0;
    for (int64_t n = begin; n < end; ++n) {
      const double mass = from.pair_mass[row.h * from.pairs + n];
      near += mass;
      if (row.IsSink(from.pair_keys[n])) continue;
      near_content += mass;
      seen += 1;
    }
    const TargetSlots slots = SlotsOf<MetricAt("monotone")>();
    AddMass(slots, near, static_cast<double>(end - begin), row);
    if (seen > 0) AddContent(slots, near_content, seen, row);
  }

  // Metrics of the keys around a query, from metric kMetric on. Keys: NearKeys,
  // or what else has its names.
  template <int kMetric = 0, class Keys>
  HEADWISE_ROW_HD void AddNear(const HeadRow& row, const Keys& keys) const {
    if constexpr (kMetric < kHeadMetricCount) {
      if constexpr (kHeadMetrics[kMetric].rows.sum == RowSum::kNear) {
        constexpr int kFirst = kHeadMetrics[kMetric].rows.first;
        constexpr int kLast = kHeadMetrics[kMetric].rows.last;
        static_assert(-kFirst <= kFarthestOffset && kLast <= kFarthestOffset);
        static_assert(kHeadMetrics[kMetric].rows.forms == kFormsMass);
        AddBetween(SlotsOf<kMetric>(), kFirst, kLast, row, keys);
      }
      AddNear<kMetric + 1>(row, keys);
    }
  }
  template <class Keys>
  HEADWISE_ROW_HD void AddBetween(const TargetSlots& slots, int first, int last,
                                  const HeadRow& row, const Keys& keys) const {
    double mass = 0, content = 0, seen = 0, content_seen = 0;
    for (int k = first; k <= last; ++k) {
      if (!keys.Has(k)) continue;
      const double share = keys.Share(k);
      mass += share;
      seen += 1;
      if (!keys.IsKept(k)) continue;
      content += share;
      content_seen += 1;
    }
    if (seen == 0) return;
    AddMass(slots, mass, seen, row);
    if (content_seen > 0) AddContent(slots, content, content_seen, row);
  }

  // All but offsets and what is near.
  HEADWISE_ROW_HD void AddAll(const HeadRow& row) const {
    AddNumbers<false>(row);
    AddFirst(row);
    AddKeys(row);
    AddRare(row);
    if (row.from->cross) {
      AddMonotone(row);
    } else {
      AddRepeats(row);
    }
  }
};

// The mass off the sinks, and what else the parts of a row share.
HEADWISE_ROW_HD void PrepareRow(HeadRow& row) {
  row.visible = row.notes->high - row.notes->low;
  row.argmax = row.from->argmax[row.at()];
  // Added up as such, not as 1 − sinks: little mass keeps all its digits.
  row.content = row.feature(kContentKey);
  row.content_visible =
      row.visible - (row.notes->low == 0 ? 1 : 0) - row.notes->separator.seen;
  double own = 0;
  row.content_visible -= row.OwnSinks([](int32_t) { return true; }, &own);
  row.content = row.content - own < 0 ? 0 : row.content - own;
  row.kept_argmax = row.from->kept_argmax[row.at()];
  row.chance = 1 / row.visible;
  // Nothing is kept where nothing but sinks is seen.
  row.content_chance =
      row.content_visible > 0 ? row.content / row.content_visible : 0;
}

}  // namespace headwise
