// Running the operator's observations. Door: site_results.h.
#include "headwise/heads/profile/site_results.h"

#include <algorithm>
#include <tuple>

#include "headwise/ops/head_sinks/head_sinks.h"

namespace headwise {
namespace {

// A key is a head's sink when rows that see it give it more than this on
// average.
constexpr double kSinkMass = 0.3;
// Candidates of a head and sequence, at most: rows have one largest key each,
// and a tenth of a quarter of them must have this one (site_notes.cc).
constexpr int64_t kMostCandidates = 40;
// So many candidates come home with their number.
constexpr int64_t kFewCandidates = 256;
// How far down a row's order we look at most for a key that is no sink.
constexpr int64_t kMostTopKeys = 32;

// The largest keys of rows of one head, in order.
class TopKeys {
 public:
  TopKeys(Context& context, const AttentionProblem& problem, AttentionArgs args,
          int32_t head, std::span<const RowRef> rows, int64_t top)
      : heads_(problem.heads), head_(head), top_(top) {
    const int32_t active[] = {head};
    args.active_heads = active;
    const auto count = static_cast<int64_t>(rows.size());
    keys_ = HostResult(context, DType::kI32, {count, heads_, top});
    shares_ = HostResult(context, DType::kF32, {count, heads_, top});
    AttentionTopK(context, problem, args, rows, keys_.view(), shares_.view());
    keys_.Fetch(context);
    shares_.Fetch(context);
  }

  // −1: the row sees no more keys.
  int32_t key(int64_t row, int64_t place) const {
    return keys_.As<int32_t>()[At(row, place)];
  }
  float share(int64_t row, int64_t place) const {
    return shares_.As<float>()[At(row, place)];
  }

 private:
  int64_t At(int64_t row, int64_t place) const {
    return (row * heads_ + head_) * top_ + place;
  }

  int64_t heads_, head_, top_;
  HostResult keys_, shares_;
};

}  // namespace

SiteResults::SiteResults(Context& context, const SiteNotes& notes,
                         int64_t heads, AttentionArgs& args)
    : notes_(notes),
      heads_(heads),
      queries_(static_cast<int64_t>(notes.rows.size())) {
  const auto make = [&](HostResult& result, DType type, const Shape& shape) {
    result = HostResult(context, type, shape);
    return result.view();
  };
  const auto row = [&](HostResult& result) {
    return make(result, DType::kF32, {1, heads, queries_});
  };
  const auto row_of = [&](HostResult& result, int64_t columns) {
    return make(result, DType::kF32, {1, heads, queries_, columns});
  };
  const auto key = [&](HostResult& result) {
    return make(result, DType::kI32, {1, heads, queries_});
  };
  Observation& o = observation_;
  o.key_features = notes.features.view();
  o.rows.entropy = row(entropy_);
  o.rows.max_probability = row(max_);
  o.rows.argmax = key(argmax_);
  o.rows.distance = row(distance_);
  o.rows.feature_mass = row_of(features_, kKeyFeatures);
  args.observation = &observation_;
  o.statistics = Statistics::kFull;
  o.excluded_keys = notes.excluded.view();
  o.query_weights = notes.weights.view();
  o.rows.kept_max = row(kept_max_);
  o.rows.kept_argmax = key(kept_argmax_);
  if (notes.query_labels.size() > 0) {
    o.query_labels = notes.query_labels.view();
    o.key_labels = notes.key_labels.view();
    o.rows.label_mass = row_of(labels_, kLabelChannels);
  }
  const int64_t sequences = static_cast<int64_t>(notes.sequences.size());
  o.summed.histogram =
      make(histogram_, DType::kF64, {sequences, heads, kHistogramBuckets});
}

// Second passes.
void SiteResults::Measured(Context& context, const AttentionProblem& problem,
                           const AttentionArgs& args) {
  sinks_.assign(heads_, {});
  if (!notes_.cross) {
    before_ = kFarthestOffset;
    after_ = notes_.causal ? 0 : before_;
    const int64_t width = before_ + after_ + 1;
    band_ = HostResult(context, DType::kF32, {1, heads_, queries_, width});
    AttentionBand(context, problem, args, before_, after_, band_.view());
  }
  const auto pairs = static_cast<int64_t>(notes_.pair_keys.size());
  if (pairs == 0) return;
  pairs_ = HostResult(context, DType::kF32, {heads_, pairs});
  AttentionPairs(context, problem, args,
                 {notes_.pair_rows, notes_.pair_offsets, notes_.pair_keys}, {},
                 pairs_.view(), {});
}

void SiteResults::Complete(Context& context, const AttentionProblem& problem,
                           const AttentionArgs& args) {
  Measured(context, problem, args);
  AskForSinks(context, args);
  if (!notes_.has_unclear_ends) return;
  argmax_.Fetch(context);
  LookBelowEnds(context, problem, args);
}

void SiteResults::Show(HeadRowsArgs& args) const {
  args.entropy = entropy_.view();
  args.max_probability = max_.view();
  args.argmax = argmax_.view();
  args.distance = distance_.view();
  args.kept_max = kept_max_.view();
  args.kept_argmax = kept_argmax_.view();
  args.feature_mass = features_.view();
  args.label_mass = labels_.view();
  args.band = band_.view();
  args.pair_mass = pairs_.view();
  args.histogram = histogram_.view();
}

void SiteResults::AskForSinks(Context& context, const AttentionArgs& args) {
  const int64_t most =
      kMostCandidates * heads_ * static_cast<int64_t>(notes_.sequences.size());
  found_ = Temp(context, DType::kI32, {1 + most, 3});
  FindSinkCandidates(
      context,
      {.kept_max = kept_max_.view(),
       .kept_argmax = kept_argmax_.view(),
       .weights = notes_.weights.view(),
       .seen = notes_.seen.view(),
       .query_starts = args.query_starts,
       .key_starts = args.key_starts,
       .found = Rows(found_.view(), 1, 1 + most),
       .count = Rows(Reshaped(found_.view(), {3 * (1 + most)}), 0, 1)});
}

// The candidates into sinks_, ordered.
void SiteResults::TakeCandidates(Context& context) {
  const int64_t room = found_.view().shape[0];
  std::vector<int32_t> found = ToVector<int32_t>(
      context, Rows(found_.view(), 0, std::min(room, 1 + kFewCandidates)));
  const int64_t count = found[0];
  if (count > kFewCandidates) {
    found = ToVector<int32_t>(
        context, Rows(found_.view(), 0, std::min(room, 1 + count)));
  }
  found_ = Temp();
  for (size_t n = 3; n < 3 * (1 + static_cast<size_t>(count)); n += 3) {
    sinks_[found[n]].push_back({found[n + 1], found[n + 2], {}});
  }
  for (std::vector<HeadSink>& sinks : sinks_) {
    std::sort(
        sinks.begin(), sinks.end(), [](const HeadSink& a, const HeadSink& b) {
          return std::tie(a.sequence, a.key) < std::tie(b.sequence, b.key);
        });
  }
}

bool SiteResults::TakeSinks(Context& context, const AttentionProblem& problem,
                            const AttentionArgs& args) {
  TakeCandidates(context);
  bool any = false;
  for (int64_t h = 0; h < heads_; ++h) {
    if (sinks_[h].empty()) continue;
    Measure(context, problem, args, static_cast<int32_t>(h), sinks_[h]);
    std::erase_if(sinks_[h], [&](const HeadSink& sink) {
      const SiteNotes::Sequence& s = notes_.sequences[sink.sequence];
      double sum = 0, rows = 0;
      for (int64_t i = 0; i < s.queries; ++i) {
        const SiteNotes::Row& row = notes_.rows[s.query_begin + i];
        if (!row.counted || sink.key < row.low || sink.key >= row.high) {
          continue;
        }
        sum += sink.mass[i];
        rows += 1;
      }
      return sum <= kSinkMass * rows;
    });
    if (sinks_[h].empty()) continue;
    any = true;
    kept_argmax_.FetchHead(context, h);
    kept_max_.FetchHead(context, h);
    LookPastSinks(context, problem, args, static_cast<int32_t>(h));
    kept_argmax_.StoreHead(context, h);
    kept_max_.StoreHead(context, h);
  }
  return any;
}

// The whole column of each candidate.
void SiteResults::Measure(Context& context, const AttentionProblem& problem,
                          const AttentionArgs& args, int32_t head,
                          std::vector<HeadSink>& sinks) const {
  std::vector<RowRef> rows;
  std::vector<int64_t> offsets = {0};
  std::vector<int32_t> keys;
  for (const HeadSink& sink : sinks) {
    for (int64_t i = 0; i < notes_.sequences[sink.sequence].queries; ++i) {
      rows.push_back({sink.sequence, i});
      keys.push_back(sink.key);
      offsets.push_back(static_cast<int64_t>(keys.size()));
    }
  }
  AttentionArgs one = args;
  const int32_t active[] = {head};
  one.active_heads = active;
  const int64_t count = static_cast<int64_t>(keys.size());
  HostResult found(context, DType::kF32, {heads_, count});
  AttentionPairs(context, problem, one, {rows, offsets, keys}, {}, found.view(),
                 {});
  found.Fetch(context);
  const float* mass = found.As<float>() + head * count;
  for (HeadSink& sink : sinks) {
    const int64_t queries = notes_.sequences[sink.sequence].queries;
    sink.mass.assign(mass, mass + queries);
    mass += queries;
  }
}

// Where the largest kept key is a sink of this head, the next one counts.
void SiteResults::LookPastSinks(Context& context,
                                const AttentionProblem& problem,
                                const AttentionArgs& args, int32_t head) {
  const auto is_sink = [&](int64_t sequence, int32_t j) {
    if (SiteNotes::IsSink(notes_.sequences[sequence], j)) return true;
    return std::any_of(sinks_[head].begin(), sinks_[head].end(),
                       [&](const HeadSink& sink) {
                         return sink.sequence == sequence && sink.key == j;
                       });
  };
  std::vector<RowRef> rows;
  // One more key than there are sinks: one of them is none.
  int64_t top = 1;
  for (const HeadSink& sink : sinks_[head]) {
    const SiteNotes::Sequence& s = notes_.sequences[sink.sequence];
    int64_t common = 0;
    for (int64_t j = 0; j < s.keys; ++j) {
      common += SiteNotes::IsSink(s, j) ? 1 : 0;
    }
    const int64_t own = std::count_if(
        sinks_[head].begin(), sinks_[head].end(),
        [&](const HeadSink& other) { return other.sequence == sink.sequence; });
    top = std::max(top, std::min({common + own + 1, s.keys, kMostTopKeys}));
    for (int64_t i = 0; i < s.queries; ++i) {
      const int64_t t = s.query_begin + i;
      if (notes_.rows[t].counted && kept_argmax(head, t) == sink.key) {
        rows.push_back({sink.sequence, i});
      }
    }
  }
  if (rows.empty()) return;
  const TopKeys keys(context, problem, args, head, rows, top);
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto row = static_cast<int64_t>(r);
    int32_t best = -1;
    float mass = 0;
    for (int64_t c = 0; c < top && best < 0; ++c) {
      const int32_t j = keys.key(row, c);
      if (j < 0 || is_sink(rows[r].sequence, j)) continue;
      best = j;
      mass = keys.share(row, c);
    }
    const int64_t t =
        notes_.sequences[rows[r].sequence].query_begin + rows[r].query;
    kept_argmax_.As<int32_t>()[head * queries_ + t] = best;
    kept_max_.As<float>()[head * queries_ + t] = mass;
  }
}

std::vector<RowRef> SiteResults::EndsAmongSeparators(int64_t head) const {
  std::vector<RowRef> rows;
  for (size_t b = 0; b < notes_.sequences.size(); ++b) {
    const SiteNotes::Sequence& s = notes_.sequences[b];
    const int64_t last = s.keys - 1;
    if (s.key_notes->special[last] == 0) continue;
    for (int64_t i = 0; i < s.queries; ++i) {
      const int64_t t = s.query_begin + i;
      const SiteNotes::Row& row = notes_.rows[t];
      if (row.counted && row.separator.seen > kSeparatorsTold &&
          argmax(head, t) == last) {
        rows.push_back({static_cast<int64_t>(b), i});
      }
    }
  }
  return rows;
}

void SiteResults::LookBelowEnds(Context& context,
                                const AttentionProblem& problem,
                                const AttentionArgs& args) {
  if (!notes_.has_unclear_ends) return;
  for (int64_t h = 0; h < heads_; ++h) {
    const std::vector<RowRef> rows = EndsAmongSeparators(h);
    if (rows.empty()) continue;
    below_end_.resize(static_cast<size_t>(heads_ * queries_));
    const TopKeys keys(context, problem, args, static_cast<int32_t>(h), rows,
                       2);
    for (size_t r = 0; r < rows.size(); ++r) {
      const int64_t t =
          notes_.sequences[rows[r].sequence].query_begin + rows[r].query;
      below_end_[static_cast<size_t>(h * queries_ + t)] =
          keys.share(static_cast<int64_t>(r), 1);
    }
  }
}

}  // namespace headwise
