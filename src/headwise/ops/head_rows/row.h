// One row's part of every metric, for the host and for kernels alike.
#pragma once

#include <cmath>
#include <cstdint>

#include "headwise/ops/head_rows/head_rows.h"

#ifdef __CUDACC__
#define HEADWISE_ROW_HD __host__ __device__ __forceinline__
#else
#define HEADWISE_ROW_HD inline
#endif

namespace headwise {

// A normalised entropy above this is broad; keys so near are local.
inline constexpr double kBroadNormalised = 0.8;
inline constexpr int kLocalReach = 4;

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

// Of a sequence's keys.
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

HEADWISE_ROW_HD constexpr TargetSlots Targets(int first, int forms) {
  TargetSlots slots;
  if ((forms & kFormScore) != 0) {
    slots.score = first++;
    slots.chance = first++;
  }
  if ((forms & kFormContent) != 0) {
    slots.content = first++;
    slots.content_chance = first++;
  }
  if ((forms & kFormArgmax) != 0) slots.argmax = first++;
  if ((forms & kFormContentArgmax) != 0) slots.content_argmax = first++;
  return slots;
}

HEADWISE_ROW_HD constexpr int OffsetSlot(int form, int64_t k) {
  return kSlotOffsets + form * kOffsetWidth + static_cast<int>(k) +
         kFarthestOffset;
}

// Adds rows to sums, which have Add(slot, value, weight).
template <class Sums>
struct RowAdder {
  Sums& sums;

  // A row's mass on `seen` targets of all that it sees.
  HEADWISE_ROW_HD void AddMass(const TargetSlots& slots, double mass,
                               double seen, const HeadRow& row) const {
    sums.Add(slots.score, mass, 1);
    sums.Add(slots.chance, seen / row.visible, 1);
  }
  // The same off the sinks.
  HEADWISE_ROW_HD void AddContent(const TargetSlots& slots, double mass,
                                  double seen, const HeadRow& row) const {
    sums.Add(slots.content, mass, row.content);
    sums.Add(slots.content_chance, row.content * seen / row.content_visible,
             row.content);
  }

  HEADWISE_ROW_HD void AddShape(const HeadRow& row) const {
    const RowResults& from = *row.from;
    const double entropy = from.entropy[row.at()];
    const double normalised = entropy / row.notes->log_visible;
    sums.Add(kSlotEntropy, entropy, 1);
    sums.Add(kSlotNormalised, normalised, 1);
    sums.Add(kSlotBroad, normalised > kBroadNormalised ? 1 : 0, 1);
    sums.Add(kSlotMax, from.max[row.at()], 1);
    if (row.notes->low == 0) {
      const TargetSlots first = Targets(kSlotFirst, kFormScore | kFormArgmax);
      AddMass(first, row.feature(kFirstKey), 1, row);
      sums.Add(first.argmax, row.argmax == 0 ? 1 : 0, 1);
    }
    if (from.cross) return;
    sums.Add(kSlotDistance, from.distance[row.at()], 1);
    sums.Add(kSlotArgmaxDistance, fabs(static_cast<double>(row.i - row.argmax)),
             1);
  }

  // The end token is left out of confidence where it is a special one.
  HEADWISE_ROW_HD void AddConfidence(const HeadRow& row) const {
    const RowResults& from = *row.from;
    const int64_t last = row.keys.count - 1;
    const bool at_end = row.argmax == last && row.keys.special[last] != 0;
    if (!at_end) {
      sums.Add(kSlotConfidence, from.max[row.at()], 1);
      return;
    }
    if (row.notes->separator.seen > kSeparatorsTold) {
      sums.Add(kSlotConfidence, from.below_end[row.at()], 1);
      return;
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
    sums.Add(kSlotConfidence, most, 1);
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
        AddEnd(Targets(kSlotSourceEnd, kFormsAll), row);
      } else {
        AddEnd(Targets(kSlotLast, kFormsAll), row);
      }
    }
    const TargetSlots sink = Targets(kSlotSink, kFormScore | kFormArgmax);
    AddMass(sink, 1 - row.content, row.visible - row.content_visible, row);
    sums.Add(sink.argmax, row.argmax >= 0 && row.IsSink(row.argmax) ? 1 : 0, 1);

    // The first token is a delimiter only where it is [CLS].
    const bool cls = !from.causal && sees_first && row.keys.special[0] != 0;
    if (cls) AddMass(Targets(kSlotCls, kFormScore), first, 1, row);
    if (row.notes->separator.seen > 0) {
      AddMass(Targets(kSlotSeparator, kFormScore), separator,
              row.notes->separator.seen, row);
    }
    const RowTargets& marks = row.notes->punctuation;
    const double punctuation = row.feature(kPunctuationKey);
    double own = 0;
    const int32_t own_marks = row.OwnSinks(
        [&](int32_t j) { return row.keys.punctuation[j] != 0; }, &own);
    const TargetSlots mark = Targets(kSlotPunctuation, kFormsMass);
    const TargetSlots delimiter = Targets(kSlotDelimiter, kFormsMass);
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
    AddRepeated(Targets(kSlotDuplicate, kFormsMass), row.notes->duplicate,
                duplicate, own, own_same, row);
    own = 0;
    const int32_t own_next = row.OwnSinks(
        [&](int32_t j) {
          return j > 0 && row.keys.special[j] == 0 && same(j - 1);
        },
        &own);
    AddRepeated(Targets(kSlotInduction, kFormsMass), row.notes->induction,
                induction, own, own_next, row);
  }

  HEADWISE_ROW_HD void AddRare(const HeadRow& row) const {
    const RowTargets& targets = row.notes->rare;
    if (targets.seen > 0) {
      const TargetSlots rare = Targets(kSlotRare, kFormsMass);
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
    const TargetSlots slots = Targets(kSlotRarest, kFormsMass);
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
    const TargetSlots slots = Targets(kSlotMonotone, kFormsMass);
    AddMass(slots, near, static_cast<double>(end - begin), row);
    if (seen > 0) AddContent(slots, near_content, seen, row);
  }

  // Mass of the keys around the query, self-attention's.
  HEADWISE_ROW_HD void AddLocal(const HeadRow& row) const {
    const RowResults& from = *row.from;
    double near = 0, near_content = 0, seen = 0, content_seen = 0;
    for (int k = -kLocalReach; k <= kLocalReach; ++k) {
      if (k < -from.before || k > from.after || !row.Sees(row.i + k)) continue;
      const double mass = row.band()[k];
      near += mass;
      seen += 1;
      if (row.IsSink(row.i + k)) continue;
      near_content += mass;
      content_seen += 1;
    }
    if (seen == 0) return;
    const TargetSlots slots = Targets(kSlotLocal, kFormsMass);
    AddMass(slots, near, seen, row);
    if (content_seen > 0) AddContent(slots, near_content, content_seen, row);
  }

  // All but offsets and what is local.
  HEADWISE_ROW_HD void AddAll(const HeadRow& row) const {
    AddShape(row);
    sums.Add(kSlotContent, row.content, 1);
    AddConfidence(row);
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
