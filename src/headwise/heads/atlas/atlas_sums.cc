// Door: atlas_sums.h.
#include "headwise/heads/atlas/atlas_sums.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "headwise/dist/pack.h"

namespace headwise {
namespace {

constexpr double kNoRows = std::numeric_limits<double>::quiet_NaN();

double OverRows(double sum, int64_t rows) {
  return rows > 0 ? sum / static_cast<double>(rows) : kNoRows;
}

bool IsStronger(const StrongSequence& a, const StrongSequence& b) {
  return a.strength != b.strength ? a.strength > b.strength
                                  : a.sequence < b.sequence;
}

bool IsDrawnBefore(const DrawnSequence& a, const DrawnSequence& b) {
  return std::tie(a.hash, a.sequence) < std::tie(b.hash, b.sequence);
}

// SplitMix64: neighbouring keys give unlike hashes.
uint64_t DrawHash(uint64_t key) {
  uint64_t x = key + 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

size_t StrengthBin(float strength) {
  const double at = static_cast<double>(strength) * kStrengthBins;
  return std::min(kStrengthBins - 1, static_cast<size_t>(std::max(0.0, at)));
}

// Strengths at which intervals 2, 3, … begin, of the drawn sequences.
std::vector<float> IntervalStarts(const AtlasSums& sums, size_t head,
                                  int64_t intervals) {
  std::vector<float> strengths;
  for (const DrawnSequence& one : sums.drawn()) {
    strengths.push_back(one.strengths[head]);
  }
  std::sort(strengths.begin(), strengths.end());
  const auto count = static_cast<int64_t>(strengths.size());
  std::vector<float> starts;
  for (int64_t i = 1; i < intervals; ++i) {
    starts.push_back(strengths[i * count / intervals]);
  }
  return starts;
}

}  // namespace

const char* Describe(HeadVisMetric metric) {
  switch (metric) {
    case HeadVisMetric::kSelfAttention:
      return "Mean attention of a token to itself";
    case HeadVisMetric::kPreviousToken:
      return "Mean attention to the token before, of all but first tokens";
    case HeadVisMetric::kPatternEntropy:
      return "Mean entropy of a row of attention, in nats";
    case HeadVisMetric::kDistance:
      return "Mean distance of query and key, weighted by attention, in tokens";
    case HeadVisMetric::kDistanceVariance:
      return "Variance of that distance over all rows together";
    case HeadVisMetric::kInduction:
      return "Mean attention to what followed earlier copies of the token, of "
             "tokens that have one";
  }
  return "";
}

void RowTotals::Add(const RowTotals& other) {
  self += other.self;
  previous += other.previous;
  entropy += other.entropy;
  distance += other.distance;
  distance_squares += other.distance_squares;
  induction += other.induction;
  strength += other.strength;
  for (size_t b = 0; b < distances.size(); ++b) {
    distances[b] += other.distances[b];
  }
  for (size_t b = 0; b < strengths.size(); ++b) {
    strengths[b] += other.strengths[b];
  }
}

std::array<double, kHeadVisMetrics> MetricsOf(const AtlasCounts& counts,
                                              const RowTotals& totals) {
  const double distance = OverRows(totals.distance, counts.tokens);
  return {
      OverRows(totals.self, counts.tokens),
      OverRows(totals.previous, counts.tokens - counts.sequences),
      OverRows(totals.entropy, counts.tokens),
      distance,
      OverRows(totals.distance_squares, counts.tokens) - distance * distance,
      OverRows(totals.induction, counts.repeats)};
}

AtlasSums::AtlasSums(size_t heads, const AtlasJob& job)
    : totals(heads),
      queries(heads),
      keys(heads),
      most_strong_(static_cast<size_t>(job.strongest)),
      most_drawn_(static_cast<size_t>(job.drawn)),
      strongest_(heads) {}

void AtlasSums::Offer(size_t head, StrongSequence sequence) {
  std::vector<StrongSequence>& kept = strongest_[head];
  if (kept.size() == most_strong_ && !IsStronger(sequence, kept.back())) return;
  if (kept.size() == most_strong_) kept.pop_back();
  kept.insert(std::upper_bound(kept.begin(), kept.end(), sequence, IsStronger),
              sequence);
}

void AtlasSums::Draw(DrawnSequence sequence) {
  if (drawn_.size() == most_drawn_ && !IsDrawnBefore(sequence, drawn_.back())) {
    return;
  }
  if (drawn_.size() == most_drawn_) drawn_.pop_back();
  const auto at =
      std::upper_bound(drawn_.begin(), drawn_.end(), sequence, IsDrawnBefore);
  drawn_.insert(at, std::move(sequence));
}

void AtlasSums::AddSequence(int64_t number, uint64_t key,
                            std::vector<int32_t> ids,
                            std::vector<float> strengths) {
  for (size_t head = 0; head < strengths.size(); ++head) {
    totals[head].strength += strengths[head];
    ++totals[head].strengths[StrengthBin(strengths[head])];
    Offer(head, {number, strengths[head]});
  }
  Draw({DrawHash(key), number, std::move(strengths)});
  ids_.emplace(number, std::move(ids));
  if (ids_.size() > 2 * most_drawn_ + 2 * most_strong_ * totals.size()) {
    DropUnused();
  }
}

void AtlasSums::DropUnused() {
  std::set<int64_t> used;
  for (const DrawnSequence& one : drawn_) used.insert(one.sequence);
  for (const auto& kept : strongest_) {
    for (const StrongSequence& one : kept) used.insert(one.sequence);
  }
  std::erase_if(ids_,
                [&](const auto& entry) { return !used.contains(entry.first); });
}

std::string AtlasSums::Packed() const {
  dist::Packer to;
  to.Put(counts);
  to.Put(totals);
  for (size_t head = 0; head < totals.size(); ++head) {
    queries[head].Pack(to);
    keys[head].Pack(to);
    to.Put(strongest_[head]);
  }
  to.Put(drawn_.size());
  for (const DrawnSequence& one : drawn_) {
    to.Put(one.hash);
    to.Put(one.sequence);
    to.Put(one.strengths);
  }
  to.Put(ids_.size());
  for (const auto& [sequence, ids] : ids_) {
    to.Put(sequence);
    to.Put(ids);
  }
  return to.Take();
}

void AtlasSums::AddPacked(std::string_view packed) {
  dist::Unpacker from(packed);
  const auto more = from.Get<AtlasCounts>();
  counts.sequences += more.sequences;
  counts.tokens += more.tokens;
  counts.repeats += more.repeats;
  const std::vector<RowTotals> added = from.GetVector<RowTotals>();
  for (size_t head = 0; head < totals.size(); ++head) {
    totals[head].Add(added[head]);
    queries[head].AddPacked(from);
    keys[head].AddPacked(from);
    for (const StrongSequence& one : from.GetVector<StrongSequence>()) {
      Offer(head, one);
    }
  }
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    DrawnSequence one;
    one.hash = from.Get<uint64_t>();
    one.sequence = from.Get<int64_t>();
    one.strengths = from.GetVector<float>();
    Draw(std::move(one));
  }
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    const auto sequence = from.Get<int64_t>();
    ids_.emplace(sequence, from.GetVector<int32_t>());
  }
  DropUnused();
}

std::vector<std::vector<KeptSequence>> ChooseSequences(const AtlasSums& sums,
                                                       const AtlasJob& job) {
  const int highest = static_cast<int>(job.intervals);
  std::vector<std::vector<KeptSequence>> chosen(sums.totals.size());
  for (size_t head = 0; head < chosen.size(); ++head) {
    std::set<int64_t> taken;
    for (const StrongSequence& one : sums.strongest(head)) {
      chosen[head].push_back({one.sequence, highest, one.strength});
      taken.insert(one.sequence);
    }
    const std::vector<float> starts = IntervalStarts(sums, head, job.intervals);
    std::vector<int64_t> count(job.intervals + 1, 0);
    for (const DrawnSequence& one : sums.drawn()) {
      const float strength = one.strengths[head];
      const int interval =
          1 + static_cast<int>(
                  std::upper_bound(starts.begin(), starts.end(), strength) -
                  starts.begin());
      if (interval == highest || count[interval] >= job.samples ||
          !taken.insert(one.sequence).second) {
        continue;
      }
      ++count[interval];
      chosen[head].push_back({one.sequence, interval, strength});
    }
    std::stable_sort(chosen[head].begin(), chosen[head].end(),
                     [](const KeptSequence& a, const KeptSequence& b) {
                       return a.interval != b.interval
                                  ? a.interval > b.interval
                                  : a.strength > b.strength;
                     });
  }
  return chosen;
}

}  // namespace headwise
