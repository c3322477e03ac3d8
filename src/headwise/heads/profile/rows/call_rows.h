// A checked call as pointers, for the host and for kernels alike.
#pragma once

#include <cstdint>

#include "headwise/heads/profile/rows/implementation.h"
#include "headwise/heads/profile/rows/row.h"

namespace headwise {

HEADWISE_ROW_HD bool IsCounted(const HeadRow& row) {
  return row.notes->counted && IsFinite(row.entropy());
}

// The call's rows with their sequences, keys and sinks.
struct CallRows {
  RowResults results;
  KeyNotes keys;  // of the whole batch
  int64_t sequences = 0;
  const int32_t *query_starts = nullptr, *key_starts = nullptr;
  const int32_t *sink_starts = nullptr, *sink_keys = nullptr;
  const int64_t* sink_at = nullptr;
  const float* sink_mass = nullptr;

  HEADWISE_ROW_HD KeyNotes KeysOf(int64_t b) const {
    const int64_t first = key_starts[b];
    return {keys.special + first, keys.punctuation + first, keys.rare + first,
            keys.ids + first, key_starts[b + 1] - first};
  }
  // How many sinks of its own a head has in a sequence, and the n-th.
  HEADWISE_ROW_HD int OwnCount(int64_t b, int64_t h) const {
    if (sink_starts == nullptr) return 0;
    const int64_t at = b * results.heads + h;
    const int count = sink_starts[at + 1] - sink_starts[at];
    return count < kMostOwnSinks ? count : kMostOwnSinks;
  }
  HEADWISE_ROW_HD OwnSink Own(int64_t b, int64_t h, int n) const {
    const int64_t at = sink_starts[b * results.heads + h] + n;
    return {sink_keys[at], sink_mass + sink_at[at]};
  }
  // Row t of a sequence that begins at `begin`; whether it counts.
  HEADWISE_ROW_HD bool Take(int64_t t, int64_t begin, HeadRow& row) const {
    row.t = t;
    row.i = t - begin;
    row.notes = results.notes + t;
    return IsCounted(row);
  }
};

inline CallRows CallRowsOf(const HeadRowsCall& call) {
  const HeadRowsProblem& p = call.problem;
  const HeadRowsArgs& a = call.args;
  CallRows rows;
  RowResults& r = rows.results;
  r.cross = p.cross;
  r.causal = p.causal;
  r.before = static_cast<int>(p.before);
  r.after = static_cast<int>(p.after);
  r.heads = a.entropy.shape[1];
  r.rows = a.entropy.shape[2];
  r.pairs = a.pair_keys ? a.pair_keys.shape[0] : 0;
  r.entropy = a.entropy.Raw<float>();
  r.max = a.max_probability.Raw<float>();
  r.distance = a.distance.Raw<float>();
  r.kept_max = a.kept_max.Raw<float>();
  r.below_end = a.below_end.Raw<float>();
  r.argmax = a.argmax.Raw<int32_t>();
  r.kept_argmax = a.kept_argmax.Raw<int32_t>();
  r.feature_mass = a.feature_mass.Raw<float>();
  r.label_mass = a.label_mass.Raw<float>();
  r.band = a.band.Raw<float>();
  r.notes = a.notes.Raw<RowNotes>();
  r.pair_offsets = a.pair_offsets.Raw<int64_t>();
  r.pair_split = a.pair_split.Raw<int32_t>();
  r.pair_keys = a.pair_keys.Raw<int32_t>();
  r.pair_mass = a.pair_mass.Raw<float>();
  rows.keys = {a.special.Raw<uint8_t>(), a.punctuation.Raw<uint8_t>(),
               a.rare.Raw<uint8_t>(), a.ids.Raw<int32_t>(), a.special.shape[0]};
  rows.sequences = a.query_starts.shape[0] - 1;
  rows.query_starts = a.query_starts.Raw<int32_t>();
  rows.key_starts = a.key_starts.Raw<int32_t>();
  rows.sink_starts = a.sink_starts.Raw<int32_t>();
  rows.sink_keys = a.sink_keys.Raw<int32_t>();
  rows.sink_at = a.sink_at.Raw<int64_t>();
  rows.sink_mass = a.sink_mass.Raw<float>();
  return rows;
}

// A row's score of a kind, 0 where it has none.
HEADWISE_ROW_HD float BestScore(const HeadRow& row, int kind) {
  const RowResults& from = *row.from;
  if (kind == kBestKept) return from.kept_max[row.at()];
  if (!from.causal) return 0;
  const float* labels = from.label_mass + row.at() * kLabelChannels;
  if (kind == kBestInduction) {
    return row.notes->induction.seen > 0 ? labels[kAfterSameToken] : 0;
  }
  return row.notes->duplicate.seen > 0 ? labels[kSameToken] - row.band()[0] : 0;
}

// A sequence's sum x and weight w, to a slot's numbers.
HEADWISE_ROW_HD void AddToTally(double x, double w, double* tally) {
  if (!(w > 0)) return;
  tally[0] += 1;
  tally[1] += w;
  tally[2] += x;
  tally[3] += w * w;
  tally[4] += w * x;
  tally[5] += x * x;
}

// Sums over the rows that see the key at one offset.
struct OffsetSums {
  int32_t rows, argmax;
  double mass, chance, weight, content, content_chance, content_argmax;

  // Adds a row whose band reaches to k.
  HEADWISE_ROW_HD void Add(const HeadRow& row, int k) {
    if (!AddOffset(row, k, rows, mass, chance, argmax)) return;
    const int64_t j = row.i + k;
    if (!row.IsSink(j)) {
      weight += row.content;
      content += row.Share(k);
      content_chance += row.content_chance;
    }
    content_argmax += row.kept_argmax == j ? row.content : 0;
  }
};

// The sums of one offset into those of all slots, x and then w.
HEADWISE_ROW_HD void StoreOffset(const OffsetSums& sums, int k, double* to) {
  const auto store = [&](int form, double x, double w) {
    to[2 * OffsetSlot(form, k)] = x;
    to[2 * OffsetSlot(form, k) + 1] = w;
  };
  store(kOffsetMass, sums.mass, sums.rows);
  store(kOffsetChance, sums.chance, sums.rows);
  store(kOffsetArgmax, sums.argmax, sums.rows);
  store(kOffsetContent, sums.content, sums.weight);
  store(kOffsetContentChance, sums.content_chance, sums.weight);
  store(kOffsetContentArgmax, sums.content_argmax, sums.weight);
}

}  // namespace headwise
