// Building a batch's notes. Door: site_notes.h.
#include "headwise/heads/profile/site_notes.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/base/rng.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {
namespace {

// A key can be a sink of one head where at least this share of the counted
// rows, and so many of them, see it: the last tokens of a causal window are
// seen by themselves alone.
constexpr double kLeastSeen = 0.25;
constexpr int32_t kLeastRows = 8;

// Positions of each token in a sequence, ascending; special ones left out.
using Occurrences = std::unordered_map<int32_t, std::vector<int32_t>>;

Occurrences FindTokens(const TokenNotes& notes) {
  Occurrences found;
  for (int64_t j = 0; j < notes.size(); ++j) {
    if (notes.special[j] == 0) {
      found[notes.ids[j]].push_back(static_cast<int32_t>(j));
    }
  }
  return found;
}

// How many of `sorted` lie in [low, high).
int32_t CountIn(const std::vector<int32_t>& sorted, int32_t low, int32_t high) {
  return static_cast<int32_t>(
      std::lower_bound(sorted.begin(), sorted.end(), high) -
      std::lower_bound(sorted.begin(), sorted.end(), low));
}

// Running counts: how many of keys [0, j) have a flag.
std::vector<int32_t> Running(const std::vector<uint8_t>& flags) {
  std::vector<int32_t> sums(flags.size() + 1, 0);
  for (size_t j = 0; j < flags.size(); ++j) {
    sums[j + 1] = sums[j] + (flags[j] != 0 ? 1 : 0);
  }
  return sums;
}

// Targets with a flag among [low, high); those at key 0 are no content.
RowTargets TargetsIn(const std::vector<int32_t>& running, int32_t low,
                     int32_t high) {
  const int32_t seen = running[high] - running[low];
  const int32_t first = low == 0 && high > 0 ? running[1] : 0;
  return {seen, seen - first};
}

class Builder {
 public:
  Builder(ThreadPool& pool, std::span<const SequenceNotes> sequences,
          SiteSide side, const AttentionMask& mask, int64_t min_visible)
      : pairs_(sequences.size()), min_visible_(min_visible) {
    notes_.mask = mask;
    notes_.cross = side == SiteSide::kCross;
    notes_.causal = !notes_.cross && mask.after == 0;
    int64_t queries = 0, keys = 0;
    for (const SequenceNotes& sequence : sequences) {
      const TokenNotes& q =
          side == SiteSide::kSource ? sequence.source : sequence.target;
      const TokenNotes& k =
          side == SiteSide::kTarget ? sequence.target : sequence.source;
      notes_.sequences.push_back(
          {queries, q.size(), keys, k.size(), &q, &k, sequence.key});
      queries += q.size();
      keys += k.size();
    }
    notes_.rows.resize(queries);
    notes_.features = Tensor(DType::kF32, {1, keys, kKeyFeatures});
    notes_.excluded = Tensor(DType::kU8, {1, keys});
    notes_.weights = Tensor(DType::kF32, {1, queries});
    if (notes_.causal) {
      notes_.query_labels = Tensor(DType::kI32, {kLabelChannels, 1, queries});
      notes_.key_labels = Tensor(DType::kI32, {kLabelChannels, 1, keys});
    }
    notes_.seen = Tensor(DType::kI32, {keys});
    pool.ParallelFor(static_cast<int64_t>(sequences.size()),
                     [&](int64_t s, int) { Add(s); });
    JoinPairs();
  }

  SiteNotes Take() { return std::move(notes_); }

 private:
  void Add(int64_t index) {
    SiteNotes::Sequence& s = notes_.sequences[index];
    AddKeys(s);
    AddRows(s);
    CountSeen(s);
    DrawSample(s);
    if (notes_.cross) {
      AddMonotone(index);
      return;
    }
    AddRepeats(index);
    if (notes_.causal) AddLabels(s);
  }

  void AddKeys(const SiteNotes::Sequence& s) {
    const TokenNotes& k = *s.key_notes;
    for (int64_t j = 0; j < s.keys; ++j) {
      float* f = notes_.features.As<float>() + (s.key_begin + j) * kKeyFeatures;
      f[kFirstKey] = j == 0 ? 1 : 0;
      f[kLastKey] = j == s.keys - 1 ? 1 : 0;
      f[kSeparatorKey] = j > 0 && k.special[j] != 0 ? 1 : 0;
      f[kPunctuationKey] = k.punctuation[j];
      f[kRareKey] = k.rare[j];
      f[kContentKey] = SiteNotes::IsSink(s, j) ? 0 : 1;
      notes_.excluded.As<uint8_t>()[s.key_begin + j] =
          SiteNotes::IsSink(s, j) ? 1 : 0;
    }
  }

  void AddRows(SiteNotes::Sequence& s) {
    const AttentionMask& mask = notes_.mask;
    const TokenNotes& q = *s.query_notes;
    const TokenNotes& k = *s.key_notes;
    std::vector<uint8_t> separator = k.special;
    if (!separator.empty()) separator[0] = 0;
    const std::vector<int32_t> separators = Running(separator);
    const std::vector<int32_t> punctuation = Running(k.punctuation);
    const std::vector<int32_t> rare = Running(k.rare);
    for (int64_t i = 0; i < s.queries; ++i) {
      SiteNotes::Row& row = notes_.rows[s.query_begin + i];
      row.low = static_cast<int32_t>(mask.before >= i ? 0 : i - mask.before);
      row.high = static_cast<int32_t>(
          mask.after >= s.keys - 1 - i ? s.keys : i + mask.after + 1);
      const bool first = i == 0 && !notes_.cross;
      row.counted = q.special[i] == 0 && !first &&
                    row.visible() >= std::max<int64_t>(min_visible_, 2);
      if (!row.counted) continue;
      ++s.counted;
      notes_.weights.As<float>()[s.query_begin + i] = 1;
      row.log_visible = std::log(static_cast<float>(row.visible()));
      row.separator = TargetsIn(separators, row.low, row.high);
      row.separator.content = 0;
      row.punctuation = TargetsIn(punctuation, row.low, row.high);
      row.rare = TargetsIn(rare, row.low, row.high);
      if (notes_.cross) continue;
      const int32_t r = q.rarest[i];
      if (r >= row.low && r < row.high && r != i && (r < i || !notes_.causal)) {
        row.rarest = r;
      }
    }
  }

  // How many counted rows see each key, where that is enough.
  void CountSeen(const SiteNotes::Sequence& s) {
    std::vector<int32_t> steps(s.keys + 1, 0);
    for (int64_t i = 0; i < s.queries; ++i) {
      const SiteNotes::Row& row = notes_.rows[s.query_begin + i];
      if (!row.counted) continue;
      ++steps[row.low];
      --steps[row.high];
    }
    const double least = std::max<double>(
        kLeastRows, kLeastSeen * static_cast<double>(s.counted));
    int32_t rows = 0;
    for (int64_t j = 0; j < s.keys; ++j) {
      rows += steps[j];
      notes_.seen.As<int32_t>()[s.key_begin + j] = rows < least ? 0 : rows;
    }
  }

  void DrawSample(SiteNotes::Sequence& s) {
    for (int64_t i = 0; i < s.queries; ++i) {
      if (!notes_.rows[s.query_begin + i].counted) continue;
      const uint64_t hash = RowHash(s.key, i);
      if (s.sample >= 0 && hash >= s.sample_hash) continue;
      s.sample_hash = hash;
      s.sample = i;
    }
  }

  // Keys with |j − i·keys/queries| ≤ 2.
  void AddMonotone(int64_t index) {
    const SiteNotes::Sequence& s = notes_.sequences[index];
    Pairs& pairs = pairs_[index];
    for (int64_t i = 0; i < s.queries; ++i) {
      SiteNotes::Row& row = notes_.rows[s.query_begin + i];
      if (!row.counted) continue;
      row.pairs = static_cast<int32_t>(pairs.rows.size());
      const double middle = static_cast<double>(i) *
                            static_cast<double>(s.keys) /
                            static_cast<double>(s.queries);
      pairs.rows.push_back({index, i});
      for (int64_t j = row.low; j < row.high; ++j) {
        if (std::abs(static_cast<double>(j) - middle) <= 2) {
          pairs.keys.push_back(static_cast<int32_t>(j));
        }
      }
      pairs.split.push_back(0);
      pairs.ends.push_back(static_cast<int64_t>(pairs.keys.size()));
    }
  }

  // Counts earlier occurrences of each row's token, and what follows them;
  // lists them where labels cannot tell earlier from later.
  void AddRepeats(int64_t index) {
    const SiteNotes::Sequence& s = notes_.sequences[index];
    const TokenNotes& notes = *s.key_notes;
    const Occurrences found = FindTokens(notes);
    for (int64_t i = 0; i < s.queries; ++i) {
      SiteNotes::Row& row = notes_.rows[s.query_begin + i];
      if (!row.counted) continue;
      const std::vector<int32_t>& at = found.at(notes.ids[i]);
      const int32_t here = static_cast<int32_t>(i);
      row.duplicate.seen = CountIn(at, row.low, here);
      const bool first = row.low == 0 && at[0] == 0 && i > 0;
      row.duplicate.content = row.duplicate.seen - (first ? 1 : 0);
      for (const int32_t o : at) {
        if (o >= here) break;
        const int32_t next = o + 1;
        if (next < row.low || next >= row.high) continue;
        if (notes.special[next] == 0) ++row.induction.seen;
      }
      row.induction.content = row.induction.seen;
      if (!notes_.causal) ListRepeats(index, i, at);
    }
  }

  void ListRepeats(int64_t index, int64_t i, const std::vector<int32_t>& at) {
    const SiteNotes::Sequence& s = notes_.sequences[index];
    SiteNotes::Row& row = notes_.rows[s.query_begin + i];
    if (row.duplicate.seen + row.induction.seen == 0) return;
    Pairs& pairs = pairs_[index];
    row.pairs = static_cast<int32_t>(pairs.rows.size());
    pairs.rows.push_back({index, i});
    for (const int32_t o : at) {
      if (o < i && o >= row.low) pairs.keys.push_back(o);
    }
    pairs.split.push_back(row.duplicate.seen);
    for (const int32_t o : at) {
      const int32_t next = o + 1;
      if (o >= i || next < row.low || next >= row.high) continue;
      if (s.key_notes->special[next] == 0) pairs.keys.push_back(next);
    }
    pairs.ends.push_back(static_cast<int64_t>(pairs.keys.size()));
  }

  // Those of all sequences, one behind the other.
  void JoinPairs() {
    notes_.pair_offsets.push_back(0);
    for (size_t b = 0; b < pairs_.size(); ++b) {
      const Pairs& pairs = pairs_[b];
      const SiteNotes::Sequence& s = notes_.sequences[b];
      const auto rows = static_cast<int32_t>(notes_.pair_rows.size());
      const auto keys = static_cast<int64_t>(notes_.pair_keys.size());
      for (int64_t t = s.query_begin; t < s.query_begin + s.queries; ++t) {
        SiteNotes::Row& row = notes_.rows[t];
        if (row.pairs >= 0) row.pairs += rows;
        notes_.has_unclear_ends =
            notes_.has_unclear_ends || (row.separator.seen > kSeparatorsTold &&
                                        s.key_notes->special[s.keys - 1] != 0);
      }
      const auto append = [](auto& to, const auto& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(notes_.pair_rows, pairs.rows);
      append(notes_.pair_split, pairs.split);
      append(notes_.pair_keys, pairs.keys);
      for (const int64_t end : pairs.ends) {
        notes_.pair_offsets.push_back(keys + end);
      }
    }
  }

  void AddLabels(const SiteNotes::Sequence& s) {
    const TokenNotes& notes = *s.key_notes;
    const int64_t queries = notes_.query_labels.shape(2);
    const int64_t keys = notes_.key_labels.shape(2);
    int32_t* q = notes_.query_labels.As<int32_t>() + s.query_begin;
    int32_t* k = notes_.key_labels.As<int32_t>() + s.key_begin;
    for (int64_t i = 0; i < s.queries; ++i) {
      const bool special = notes.special[i] != 0;
      const bool open = i > 0 && !special && notes.special[i - 1] == 0;
      q[kSameToken * queries + i] = notes.ids[i];
      q[kAfterSameToken * queries + i] = notes.ids[i];
      k[kSameToken * keys + i] = special ? -1 : notes.ids[i];
      k[kAfterSameToken * keys + i] = open ? notes.ids[i - 1] : -1;
    }
  }

  // Listed pairs of one sequence; its rows count them from 0.
  struct Pairs {
    std::vector<RowRef> rows;
    std::vector<int64_t> ends;
    std::vector<int32_t> split, keys;
  };

  SiteNotes notes_;
  std::vector<Pairs> pairs_;  // by sequence
  int64_t min_visible_;
};

}  // namespace

uint64_t RowHash(uint64_t window, int64_t row) {
  const auto words = Philox(window, 0, static_cast<uint64_t>(row));
  return (uint64_t{words[0]} << 32) | words[1];
}

SiteSide SideOf(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kSelf:
      return SiteSide::kSource;
    case AttentionKind::kDecoder:
      return SiteSide::kTarget;
    case AttentionKind::kCross:
      return SiteSide::kCross;
  }
  return SiteSide::kSource;
}

void SiteNotes::MoveTo(Context& context) {
  if (context.device().is_cpu()) return;
  std::vector<Tensor> gone;
  for (Tensor* input :
       {&features, &query_labels, &key_labels, &excluded, &weights, &seen}) {
    if (input->size() == 0) continue;
    gone.push_back(
        std::exchange(*input, ToDevice(context, std::as_const(*input).view())));
  }
  context.Synchronize();  // the copies are read until then
}

std::vector<SequenceNotes> AnnotateAll(Context& context,
                                       std::span<const TokenWindow> windows,
                                       const TokenTable& table,
                                       const TokenCounts* counts) {
  std::vector<SequenceNotes> notes(windows.size());
  context.pool().ParallelFor(
      static_cast<int64_t>(windows.size()), [&](int64_t n, int) {
        notes[n].source = Annotate(windows[n].source, table, counts);
        notes[n].target = Annotate(windows[n].target, table, nullptr);
        notes[n].key = windows[n].key;
      });
  return notes;
}

SiteNotes MakeSiteNotes(Context& context,
                        std::span<const SequenceNotes> sequences, SiteSide side,
                        const AttentionMask& mask, int64_t min_visible) {
  return Builder(context.pool(), sequences, side, mask, min_visible).Take();
}

}  // namespace headwise
