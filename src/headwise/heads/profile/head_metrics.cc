// Row by row. Door: head_metrics.h.
#include "headwise/heads/profile/head_metrics.h"

#include <algorithm>
#include <cmath>

#include "headwise/ops/head_rows/row.h"

namespace headwise {

static_assert(kFarthestOffset == kMostOffset);
static_assert(kTallyNumbers == Tally::kNumbers);

// Σx and Σw of one head and sequence, by slot.
struct HeadMetrics::Sums {
  std::vector<double> x = std::vector<double>(kHeadSlots, 0.0);
  std::vector<double> w = std::vector<double>(kHeadSlots, 0.0);

  void Add(int slot, double value, double weight) {
    x[slot] += value;
    w[slot] += weight;
  }
  void Clear() {
    std::fill(x.begin(), x.end(), 0);
    std::fill(w.begin(), w.end(), 0);
  }
  // Forms of equal weight share one.
  void FinishOffsets() {
    for (int k = -kMostOffset; k <= kMostOffset; ++k) {
      for (int form = 0; form < kOffsetForms; ++form) {
        const int shared = form < kOffsetContent ? kOffsetMass : kOffsetContent;
        w[OffsetSlot(form, k)] = w[OffsetSlot(shared, k)];
      }
    }
  }
};

void HeadMetrics::NameTargets(int first, const std::string& name, int forms) {
  const TargetSlots slots = Targets(first, forms);
  const auto give = [&](int slot, const char* form) {
    if (slot >= 0) Name(slot, name + form);
  };
  give(slots.score, "");
  give(slots.chance, ".chance");
  give(slots.content, ".content");
  give(slots.content_chance, ".content.chance");
  give(slots.argmax, ".argmax");
  give(slots.content_argmax, ".content.argmax");
}

void HeadMetrics::NameOffsets(int most, int forms) {
  static constexpr const char* kNames[kOffsetForms] = {
      "",         ".chance",         ".argmax",
      ".content", ".content.chance", ".content.argmax"};
  for (int form = 0; form < forms; ++form) {
    for (int k = -most; k <= most; ++k) {
      Name(OffsetSlot(form, k), OffsetMetric(k) + kNames[form]);
    }
  }
}

HeadMetrics::HeadMetrics(const std::string& prefix, MetricSet metrics)
    : prefix_(prefix), metrics_(metrics), names_(kHeadSlots) {
  Name(kSlotEntropy, "entropy");
  Name(kSlotNormalised, "entropy.normalised");
  Name(kSlotMax, "max");
  Name(kSlotBroad, "broad");
  Name(kSlotDistance, "distance");
  Name(kSlotArgmaxDistance, "distance.argmax");
  NameTargets(kSlotFirst, "first", kFormScore | kFormArgmax);
  if (metrics == MetricSet::kCore) {
    NameOffsets(1, kOffsetContent);
    return;
  }
  NameOffsets(kMostOffset, kOffsetForms);
  Name(kSlotContent, "content");
  Name(kSlotConfidence, "confidence");
  NameTargets(kSlotLocal, "local", kFormsMass);
  NameTargets(kSlotLast, "last", kFormsAll);
  NameTargets(kSlotSink, "sink", kFormScore | kFormArgmax);
  NameTargets(kSlotDelimiter, "delimiter", kFormsMass);
  NameTargets(kSlotCls, "delimiter.cls", kFormScore);
  NameTargets(kSlotSeparator, "delimiter.sep", kFormScore);
  NameTargets(kSlotPunctuation, "delimiter.punctuation", kFormsMass);
  NameTargets(kSlotDuplicate, "duplicate", kFormsMass);
  NameTargets(kSlotInduction, "induction", kFormsMass);
  NameTargets(kSlotRarest, "rare.argmax", kFormsMass);
  NameTargets(kSlotRare, "rare.mass", kFormsMass);
  NameTargets(kSlotMonotone, "monotone", kFormsMass);
  NameTargets(kSlotSourceEnd, "source-end", kFormsAll);
}

void HeadMetrics::Prepare(Profile& profile) {
  tallies_.assign(names_.size(), nullptr);
  for (size_t slot = 0; slot < names_.size(); ++slot) {
    if (!names_[slot].empty()) tallies_[slot] = &profile.Tallies(names_[slot]);
  }
}

// OffsetSums of all offsets, and what is local. Most of the time of a row goes
// here, so forms are added for all offsets at once, and one key is the largest.
// kept: for every key 1, or 0 for a sink.
void HeadMetrics::AddOffsets(const HeadRow& row, const double* kept,
                             Sums& sums) const {
  const RowResults& from = *row.from;
  const int64_t low = std::max<int64_t>(-from.before, row.notes->low - row.i);
  const int64_t high =
      std::min<int64_t>(from.after, row.notes->high - 1 - row.i);
  const int width = static_cast<int>(high - low + 1);
  if (width <= 0) return;
  double mass[kOffsetWidth], content[kOffsetWidth];
  const float* band = row.band() + low;
  for (int c = 0; c < width; ++c) mass[c] = band[c];
  const auto at = [&](std::vector<double>& values, OffsetForm form) {
    return values.data() + OffsetSlot(form, low);
  };
  const auto hit = [&](int32_t key, double weight, OffsetForm form) {
    const int64_t k = key - row.i;
    if (key < 0 || k < low || k > high) return;
    sums.x[OffsetSlot(form, k)] += weight;
  };
  double* __restrict mass_x = at(sums.x, kOffsetMass);
  double* __restrict mass_w = at(sums.w, kOffsetMass);
  double* __restrict chance = at(sums.x, kOffsetChance);
  const double even = 1 / row.visible;
  for (int c = 0; c < width; ++c) {
    mass_x[c] += mass[c];
    mass_w[c] += 1;
    chance[c] += even;
  }
  hit(row.argmax, 1, kOffsetArgmax);
  if (metrics_ == MetricSet::kCore) return;
  const double* keys = kept + row.i + low;
  // Nothing is kept where nothing but sinks is seen.
  const double kept_even =
      row.content_visible > 0 ? row.content / row.content_visible : 0;
  double* __restrict content_x = at(sums.x, kOffsetContent);
  double* __restrict content_w = at(sums.w, kOffsetContent);
  double* __restrict content_chance = at(sums.x, kOffsetContentChance);
  for (int c = 0; c < width; ++c) {
    content[c] = keys[c] * mass[c];
    content_x[c] += content[c];
    content_w[c] += keys[c] * row.content;
    content_chance[c] += keys[c] * kept_even;
  }
  hit(row.kept_argmax, row.content, kOffsetContentArgmax);
  double near = 0, near_content = 0, near_seen = 0, near_content_seen = 0;
  const int64_t last = std::min<int64_t>(kLocalReach, high) - low;
  for (int64_t c = std::max<int64_t>(-kLocalReach, low) - low; c <= last; ++c) {
    near += mass[c];
    near_content += content[c];
    near_seen += 1;
    near_content_seen += keys[c];
  }
  const RowAdder<Sums> adder{sums};
  const TargetSlots local = Targets(kSlotLocal, kFormsMass);
  adder.AddMass(local, near, near_seen, row);
  if (near_content_seen > 0) {
    adder.AddContent(local, near_content, near_content_seen, row);
  }
}

void HeadMetrics::AddRow(HeadRow& row, const double* kept, Sums& sums) const {
  const RowAdder<Sums> adder{sums};
  if (metrics_ == MetricSet::kCore) {
    row.visible = row.notes->visible();
    row.argmax = row.from->argmax[row.at()];
    adder.AddShape(row);
  } else {
    PrepareRow(row);
    adder.AddAll(row);
  }
  if (!row.from->cross) AddOffsets(row, kept, sums);
}

void HeadMetrics::Add(const SiteResults& results, int64_t h,
                      size_t index) const {
  const SiteNotes& site = results.notes();
  const RowResults from = results.rows();
  Sums sums;
  std::vector<OwnSink> own;
  std::vector<double> kept;
  for (size_t b = 0; b < site.sequences.size(); ++b) {
    const SiteNotes::Sequence& s = site.sequences[b];
    own.clear();
    kept.resize(s.keys);
    for (int64_t j = 0; j < s.keys; ++j) {
      kept[j] = SiteNotes::IsSink(s, j) ? 0 : 1;
    }
    for (const HeadSink& sink : results.sinks(h)) {
      if (sink.sequence != static_cast<int64_t>(b)) continue;
      own.push_back({sink.key, sink.mass.data()});
      kept[sink.key] = 0;
    }
    sums.Clear();
    const TokenNotes& keys = *s.key_notes;
    HeadRow row;
    row.from = &from;
    row.keys = {keys.special.data(), keys.punctuation.data(), keys.rare.data(),
                keys.ids.data(), s.keys};
    row.own = own.data();
    row.own_count = static_cast<int>(own.size());
    row.h = h;
    for (row.i = 0; row.i < s.queries; ++row.i) {
      row.t = s.query_begin + row.i;
      row.notes = &site.rows[row.t];
      if (!row.notes->counted || !std::isfinite(from.entropy[row.at()])) {
        continue;
      }
      AddRow(row, kept.data(), sums);
    }
    sums.FinishOffsets();
    for (size_t slot = 0; slot < tallies_.size(); ++slot) {
      if (tallies_[slot] == nullptr) continue;
      (*tallies_[slot])[index].Add(sums.x[slot], sums.w[slot]);
    }
  }
}

void HeadMetrics::Add(const double* tallies, size_t index) const {
  for (size_t slot = 0; slot < tallies_.size(); ++slot) {
    if (tallies_[slot] == nullptr) continue;
    const double* t = tallies + slot * kTallyNumbers;
    (*tallies_[slot])[index].Merge({t[0], t[1], t[2], t[3], t[4], t[5]});
  }
}

}  // namespace headwise
