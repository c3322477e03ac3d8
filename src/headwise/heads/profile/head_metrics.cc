// Row by row. Door: head_metrics.h.
#include "headwise/heads/profile/head_metrics.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace headwise {
namespace {

constexpr int kLocal = 4;
constexpr double kBroad = 0.8;

}  // namespace

// Σx and Σw of one head and sequence, by slot.
struct HeadMetrics::Sums {
  explicit Sums(size_t slots) : x(slots, 0), w(slots, 0) {}
  void Add(int slot, double value, double weight) {
    if (slot < 0) return;
    x[slot] += value;
    w[slot] += weight;
  }
  // A row's mass on `seen` targets of `visible` keys.
  void AddMass(const TargetSlots& slots, double mass, double seen,
               double visible) {
    Add(slots.score, mass, 1);
    Add(slots.chance, seen / visible, 1);
  }
  // The same off the sinks: mass on `seen` of what is seen there.
  void AddContent(const TargetSlots& slots, double mass, double seen,
                  const Row& row);
  void Clear() {
    std::fill(x.begin(), x.end(), 0);
    std::fill(w.begin(), w.end(), 0);
  }
  std::vector<double> x, w;
};

// One counted row of one head.
struct HeadMetrics::Row {
  const SiteResults& results;
  const SiteNotes::Sequence& sequence;
  const SiteNotes::Row& notes;
  // Sinks of this head and sequence; and for every key 1, or 0 for a sink.
  std::span<const HeadSink* const> own;
  const double* kept = nullptr;
  int64_t h = 0;
  int64_t t = 0;       // in the batch
  int64_t i = 0;       // in its sequence
  int64_t pairs = -1;  // its entry of the listed pairs, or −1
  double visible = 0;
  double content = 0;          // mass off the sinks
  double content_visible = 0;  // keys seen off the sinks
  int32_t argmax = -1;
  int32_t kept_argmax = -1;

  double feature(KeyFeature f) const { return results.feature(h, t, f); }
  bool Sees(int64_t j) const { return j >= notes.low && j < notes.high; }
  // Mass on this head's own sinks that hold, and how many do.
  template <typename Holds>
  int32_t OwnSinks(const Holds& holds, double* mass) const {
    int32_t found = 0;
    for (const HeadSink* sink : own) {
      if (!Sees(sink->key) || !holds(sink->key)) continue;
      *mass += sink->mass[i];
      ++found;
    }
    return found;
  }
  bool IsSink(int64_t j) const { return kept[j] == 0; }
};

void HeadMetrics::Sums::AddContent(const TargetSlots& slots, double mass,
                                   double seen, const Row& row) {
  Add(slots.content, mass, row.content);
  Add(slots.content_chance, row.content * seen / row.content_visible,
      row.content);
}

int HeadMetrics::Slot(const std::string& name) {
  names_.push_back(prefix_ + name);
  return static_cast<int>(names_.size()) - 1;
}

TargetSlots HeadMetrics::Targets(const std::string& name, int forms) {
  TargetSlots slots;
  if ((forms & kScore) != 0) slots.score = Slot(name);
  slots.chance = Slot(name + ".chance");
  if ((forms & kContent) != 0) {
    slots.content = Slot(name + ".content");
    slots.content_chance = Slot(name + ".content.chance");
  }
  if ((forms & kArgmax) != 0) slots.argmax = Slot(name + ".argmax");
  if ((forms & kContentArgmax) != 0) {
    slots.content_argmax = Slot(name + ".content.argmax");
  }
  return slots;
}

HeadMetrics::HeadMetrics(const std::string& prefix, MetricSet metrics)
    : prefix_(prefix), metrics_(metrics) {
  AddCoreSlots();
  if (metrics == MetricSet::kCore) {
    AddOffsetSlots(1, kOffsetContent);
    return;
  }
  constexpr int kMass = kScore | kContent;
  constexpr int kAll = kMass | kArgmax | kContentArgmax;
  AddOffsetSlots(kMostOffset, kOffsetForms);
  content_ = Slot("content");
  confidence_ = Slot("confidence");
  local_ = Targets("local", kMass);
  last_ = Targets("last", kAll);
  sink_ = Targets("sink", kScore | kArgmax);
  delimiter_ = Targets("delimiter", kMass);
  cls_ = Targets("delimiter.cls", kScore);
  separator_ = Targets("delimiter.sep", kScore);
  punctuation_ = Targets("delimiter.punctuation", kMass);
  duplicate_ = Targets("duplicate", kMass);
  induction_ = Targets("induction", kMass);
  rarest_ = Targets("rare.argmax", kMass);
  rare_ = Targets("rare.mass", kMass);
  monotone_ = Targets("monotone", kMass);
  source_end_ = Targets("source-end", kAll);
}

void HeadMetrics::AddCoreSlots() {
  entropy_ = Slot("entropy");
  normalised_ = Slot("entropy.normalised");
  max_ = Slot("max");
  broad_ = Slot("broad");
  distance_ = Slot("distance");
  argmax_distance_ = Slot("distance.argmax");
  first_ = Targets("first", kScore | kArgmax);
}

void HeadMetrics::AddOffsetSlots(int most, int forms) {
  static constexpr const char* kNames[kOffsetForms] = {
      "",         ".chance",         ".argmax",
      ".content", ".content.chance", ".content.argmax"};
  first_offset_ = static_cast<int>(names_.size());
  most_offset_ = most;
  offset_forms_ = forms;
  for (int form = 0; form < forms; ++form) {
    for (int k = -most; k <= most; ++k) Slot(OffsetMetric(k) + kNames[form]);
  }
}

void HeadMetrics::Prepare(Profile& profile) {
  tallies_.clear();
  for (const std::string& name : names_) {
    tallies_.push_back(&profile.Tallies(name));
  }
}

void HeadMetrics::AddShape(const Row& row, Sums& sums) const {
  const double entropy = row.results.entropy(row.h, row.t);
  const double normalised = entropy / row.notes.log_visible;
  sums.Add(entropy_, entropy, 1);
  sums.Add(normalised_, normalised, 1);
  sums.Add(broad_, normalised > kBroad ? 1 : 0, 1);
  sums.Add(max_, row.results.max(row.h, row.t), 1);
  if (row.notes.low == 0) {
    sums.AddMass(first_, row.feature(kFirstKey), 1, row.visible);
    sums.Add(first_.argmax, row.argmax == 0 ? 1 : 0, 1);
  }
  if (row.results.notes().cross) return;
  sums.Add(distance_, row.results.distance(row.h, row.t), 1);
  sums.Add(argmax_distance_, std::abs(static_cast<double>(row.i - row.argmax)),
           1);
}

// Most of the time of a row goes here, so forms are added for all offsets at
// once, those of equal weight share one (FinishOffsets copies it), and one key
// is the largest.
void HeadMetrics::AddOffsets(const Row& row, Sums& sums) const {
  constexpr int kWidth = 2 * kMostOffset + 1;
  const int64_t before = row.results.offsets_before();
  const int64_t low = std::max(-before, row.notes.low - row.i);
  const int64_t high = std::min<int64_t>(row.results.offsets_after(),
                                         row.notes.high - 1 - row.i);
  const int width = static_cast<int>(high - low + 1);
  if (width <= 0) return;
  double mass[kWidth], kept[kWidth];
  const float* from = row.results.offsets(row.h, row.t) + before + low;
  for (int c = 0; c < width; ++c) mass[c] = from[c];
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
  const double* keys = row.kept + row.i + low;
  // Nothing is kept where nothing but sinks is seen.
  const double kept_even =
      row.content_visible > 0 ? row.content / row.content_visible : 0;
  double* __restrict content_x = at(sums.x, kOffsetContent);
  double* __restrict content_w = at(sums.w, kOffsetContent);
  double* __restrict content_chance = at(sums.x, kOffsetContentChance);
  for (int c = 0; c < width; ++c) {
    kept[c] = keys[c] * mass[c];
    content_x[c] += kept[c];
    content_w[c] += keys[c] * row.content;
    content_chance[c] += keys[c] * kept_even;
  }
  hit(row.kept_argmax, row.content, kOffsetContentArgmax);
  double near = 0, near_content = 0, near_seen = 0, near_content_seen = 0;
  const int64_t last = std::min<int64_t>(kLocal, high) - low;
  for (int64_t c = std::max<int64_t>(-kLocal, low) - low; c <= last; ++c) {
    near += mass[c];
    near_content += kept[c];
    near_seen += 1;
    near_content_seen += keys[c];
  }
  sums.AddMass(local_, near, near_seen, row.visible);
  if (near_content_seen > 0) {
    sums.AddContent(local_, near_content, near_content_seen, row);
  }
}

void HeadMetrics::FinishOffsets(Sums& sums) const {
  for (int k = -most_offset_; k <= most_offset_; ++k) {
    for (int form = 0; form < offset_forms_; ++form) {
      const OffsetForm shared =
          form < kOffsetContent ? kOffsetMass : kOffsetContent;
      sums.w[OffsetSlot(static_cast<OffsetForm>(form), k)] =
          sums.w[OffsetSlot(shared, k)];
    }
  }
}

// The end token is left out of confidence where it is a special one.
void HeadMetrics::AddConfidence(const Row& row, Sums& sums) const {
  const int64_t last = row.sequence.keys - 1;
  const bool at_end =
      row.argmax == last && row.sequence.key_notes->special[last] != 0;
  if (!at_end) {
    sums.Add(confidence_, row.results.max(row.h, row.t), 1);
    return;
  }
  if (row.notes.separator.seen > kSeparatorsTold) {
    sums.Add(confidence_, row.results.below_end(row.h, row.t), 1);
    return;
  }
  double most = std::max<double>(row.results.kept_max(row.h, row.t),
                                 row.feature(kFirstKey));
  for (const HeadSink* sink : row.own) {
    if (row.Sees(sink->key)) most = std::max<double>(most, sink->mass[row.i]);
  }
  if (row.notes.separator.seen == kSeparatorsTold) {
    most = std::max(most, row.feature(kSeparatorKey) - row.feature(kLastKey));
  }
  sums.Add(confidence_, most, 1);
}

void HeadMetrics::AddKeys(const Row& row, Sums& sums) const {
  const SiteNotes& site = row.results.notes();
  const TokenNotes& keys = *row.sequence.key_notes;
  const double first = row.feature(kFirstKey);
  const double separator = row.feature(kSeparatorKey);
  const bool sees_first = row.notes.low == 0;
  const int64_t last = row.sequence.keys - 1;
  const TargetSlots& end = site.cross ? source_end_ : last_;
  if (!site.causal && row.notes.high > last) {
    sums.AddMass(end, row.feature(kLastKey), 1, row.visible);
    sums.Add(end.argmax, row.argmax == last ? 1 : 0, 1);
    if (!row.IsSink(last)) {
      sums.AddContent(end, row.feature(kLastKey), 1, row);
      sums.Add(end.content_argmax, row.kept_argmax == last ? row.content : 0,
               row.content);
    }
  }
  sums.AddMass(sink_, 1 - row.content, row.visible - row.content_visible,
               row.visible);
  sums.Add(sink_.argmax, row.argmax >= 0 && row.IsSink(row.argmax) ? 1 : 0, 1);

  // The first token is a delimiter only where it is [CLS].
  const bool cls = !site.causal && sees_first && keys.special[0] != 0;
  if (cls) sums.AddMass(cls_, first, 1, row.visible);
  if (row.notes.separator.seen > 0) {
    sums.AddMass(separator_, separator, row.notes.separator.seen, row.visible);
  }
  const RowTargets& marks = row.notes.punctuation;
  const double punctuation = row.feature(kPunctuationKey);
  double own = 0;
  const int32_t own_marks =
      row.OwnSinks([&](int32_t j) { return keys.punctuation[j] != 0; }, &own);
  if (marks.seen > 0) {
    sums.AddMass(punctuation_, punctuation, marks.seen, row.visible);
  }
  const int delimiters = marks.seen + row.notes.separator.seen + (cls ? 1 : 0);
  if (delimiters > 0) {
    sums.AddMass(delimiter_, punctuation + separator + (cls ? first : 0),
                 delimiters, row.visible);
  }
  if (marks.content > own_marks) {
    const bool at_first = sees_first && keys.punctuation[0] != 0;
    const double mass = punctuation - own - (at_first ? first : 0);
    const double seen = marks.content - own_marks;
    sums.AddContent(punctuation_, mass, seen, row);
    sums.AddContent(delimiter_, mass, seen, row);
  }
}

void HeadMetrics::AddRepeats(const Row& row, Sums& sums) const {
  const SiteNotes& site = row.results.notes();
  const TokenNotes& keys = *row.sequence.key_notes;
  double duplicate = 0, induction = 0;
  if (site.causal) {
    // Equal labels hold the query itself too.
    duplicate = row.results.label(row.h, row.t, kSameToken) -
                row.results.self(row.h, row.t);
    induction = row.results.label(row.h, row.t, kAfterSameToken);
  } else if (row.pairs >= 0) {
    const int64_t begin = site.pair_offsets[row.pairs];
    const int64_t split = begin + site.pair_split[row.pairs];
    for (int64_t n = begin; n < site.pair_offsets[row.pairs + 1]; ++n) {
      (n < split ? duplicate : induction) += row.results.pair(row.h, n);
    }
  }
  const int32_t token = keys.ids[row.i];
  const auto add = [&](const TargetSlots& slots, const RowTargets& targets,
                       double mass, double sink_mass, int32_t own_sinks) {
    if (targets.seen == 0) return;
    sums.AddMass(slots, std::max(mass, 0.0), targets.seen, row.visible);
    if (targets.content <= own_sinks) return;
    sums.AddContent(slots, std::max(mass - sink_mass, 0.0),
                    targets.content - own_sinks, row);
  };
  const auto same = [&](int32_t j) {
    return j < row.i && keys.special[j] == 0 && keys.ids[j] == token;
  };
  double own = row.notes.low == 0 && same(0) ? row.feature(kFirstKey) : 0;
  const int32_t own_same = row.OwnSinks(same, &own);
  add(duplicate_, row.notes.duplicate, duplicate, own, own_same);
  own = 0;
  const int32_t own_next = row.OwnSinks(
      [&](int32_t j) { return j > 0 && keys.special[j] == 0 && same(j - 1); },
      &own);
  add(induction_, row.notes.induction, induction, own, own_next);
}

void HeadMetrics::AddRare(const Row& row, Sums& sums) const {
  const TokenNotes& keys = *row.sequence.key_notes;
  if (row.notes.rare.seen > 0) {
    const double mass = row.feature(kRareKey);
    sums.AddMass(rare_, mass, row.notes.rare.seen, row.visible);
    double own =
        row.notes.low == 0 && keys.rare[0] != 0 ? row.feature(kFirstKey) : 0;
    const int32_t sinks =
        row.OwnSinks([&](int32_t j) { return keys.rare[j] != 0; }, &own);
    if (row.notes.rare.content > sinks) {
      sums.AddContent(rare_, mass - own, row.notes.rare.content - sinks, row);
    }
  }
  const int32_t rarest = row.notes.rarest;
  if (rarest < 0) return;
  sums.AddMass(rarest_, row.argmax == rarest ? 1 : 0, 1, row.visible);
  if (row.IsSink(rarest)) return;
  sums.AddContent(rarest_, row.kept_argmax == rarest ? row.content : 0, 1, row);
}

// Mass around the diagonal of cross-attention.
void HeadMetrics::AddMonotone(const Row& row, Sums& sums) const {
  if (row.pairs < 0) return;
  const SiteNotes& site = row.results.notes();
  const int64_t begin = site.pair_offsets[row.pairs];
  const int64_t end = site.pair_offsets[row.pairs + 1];
  double near = 0, near_content = 0, seen = 0;
  for (int64_t n = begin; n < end; ++n) {
    const double mass = row.results.pair(row.h, n);
    near += mass;
    if (row.IsSink(site.pair_keys[n])) continue;
    near_content += mass;
    seen += 1;
  }
  sums.AddMass(monotone_, near, static_cast<double>(end - begin), row.visible);
  if (seen > 0) sums.AddContent(monotone_, near_content, seen, row);
}

void HeadMetrics::AddRow(Row& row, Sums& sums) const {
  const bool cross = row.results.notes().cross;
  row.visible = row.notes.visible();
  row.argmax = row.results.argmax(row.h, row.t);
  AddShape(row, sums);
  if (metrics_ == MetricSet::kCore) {
    if (!cross) AddOffsets(row, sums);
    return;
  }
  // Added up as such, not as 1 − sinks: little mass keeps all its digits.
  row.content = row.feature(kContentKey);
  row.content_visible =
      row.visible - (row.notes.low == 0 ? 1 : 0) - row.notes.separator.seen;
  double own = 0;
  row.content_visible -= row.OwnSinks([](int32_t) { return true; }, &own);
  row.content = std::max(row.content - own, 0.0);
  row.kept_argmax = row.results.kept_argmax(row.h, row.t);
  sums.Add(content_, row.content, 1);
  AddConfidence(row, sums);
  AddKeys(row, sums);
  AddRare(row, sums);
  if (cross) {
    AddMonotone(row, sums);
  } else {
    AddOffsets(row, sums);
    AddRepeats(row, sums);
  }
}

void HeadMetrics::Add(const SiteResults& results, int64_t h,
                      size_t index) const {
  const SiteNotes& site = results.notes();
  Sums sums(names_.size());
  std::vector<const HeadSink*> own;
  std::vector<double> kept;
  size_t pairs = 0;
  for (size_t b = 0; b < site.sequences.size(); ++b) {
    const SiteNotes::Sequence& s = site.sequences[b];
    own.clear();
    kept.resize(s.keys);
    for (int64_t j = 0; j < s.keys; ++j) {
      kept[j] = SiteNotes::IsSink(s, j) ? 0 : 1;
    }
    for (const HeadSink& sink : results.sinks(h)) {
      if (sink.sequence != static_cast<int64_t>(b)) continue;
      own.push_back(&sink);
      kept[sink.key] = 0;
    }
    sums.Clear();
    for (int64_t i = 0; i < s.queries; ++i) {
      const int64_t t = s.query_begin + i;
      Row row{results, s, site.rows[t], own, kept.data(), h, t, i};
      if (pairs < site.pair_rows.size() && site.pair_rows[pairs].query == i &&
          site.pair_rows[pairs].sequence == static_cast<int64_t>(b)) {
        row.pairs = static_cast<int64_t>(pairs++);
      }
      if (row.notes.counted && std::isfinite(results.entropy(h, t))) {
        AddRow(row, sums);
      }
    }
    FinishOffsets(sums);
    for (size_t slot = 0; slot < names_.size(); ++slot) {
      (*tallies_[slot])[index].Add(sums.x[slot], sums.w[slot]);
    }
  }
}

}  // namespace headwise
