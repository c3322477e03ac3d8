// What a text leaves behind for an atlas: sums over every row of every head,
// the sequences in which each head is strongest, and sequences drawn at random
// for all of them. Its memory grows with heads and what is kept, not with the
// text. Sums of parts of a text merge, in the text's order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/atlas.h"
#include "headwise/heads/atlas/token_table.h"
#include "headwise/observation.h"

namespace headwise {

// Of a sequence's largest attention, from 0 to 1.
inline constexpr size_t kStrengthBins = 50;

// Rows of all sequences, the same for every head.
struct AtlasCounts {
  int64_t sequences = 0;
  int64_t tokens = 0;   // rows
  int64_t repeats = 0;  // rows whose token came before
};

// One head's sums.
struct RowTotals {
  double self = 0, previous = 0, entropy = 0;
  double distance = 0, distance_squares = 0;
  double induction = 0;
  double strength = 0;                                   // of sequences
  std::array<double, kHistogramBuckets> distances = {};  // observation.h
  std::array<int64_t, kStrengthBins> strengths = {};

  void Add(const RowTotals& other);
};

// By HeadVisMetric.
std::array<double, kHeadVisMetrics> MetricsOf(const AtlasCounts& counts,
                                              const RowTotals& totals);

// A sequence by its number in the text.
struct StrongSequence {
  int64_t sequence = 0;
  float strength = 0;
};

// Drawn by a hash of its tokens, which does not depend on their order.
struct DrawnSequence {
  uint64_t hash = 0;
  int64_t sequence = 0;
  std::vector<float> strengths;  // one a head
};

class AtlasSums {
 public:
  // Keeps so many as the job says.
  AtlasSums(size_t heads, const AtlasJob& job);

  // The next sequence of the text, with the strength of each head in it.
  void AddSequence(int64_t number, uint64_t key, std::vector<int32_t> ids,
                   std::vector<float> strengths);

  std::string Packed() const;
  void AddPacked(std::string_view packed);

  AtlasCounts counts;
  std::vector<RowTotals> totals;      // one a head
  std::vector<TokenWeights> queries;  // of each row's largest key
  std::vector<TokenWeights> keys;

  // Largest first; equal ones in the text's order.
  const std::vector<StrongSequence>& strongest(size_t head) const {
    return strongest_[head];
  }
  // By hash.
  const std::vector<DrawnSequence>& drawn() const { return drawn_; }
  const std::vector<int32_t>& ids(int64_t sequence) const {
    return ids_.at(sequence);
  }

 private:
  void Offer(size_t head, StrongSequence sequence);
  void Draw(DrawnSequence sequence);
  void DropUnused();

  size_t most_strong_;
  size_t most_drawn_;
  std::vector<std::vector<StrongSequence>> strongest_;
  std::vector<DrawnSequence> drawn_;
  std::map<int64_t, std::vector<int32_t>> ids_;  // of what is kept
};

// A sequence that is shown of a head.
struct KeptSequence {
  int64_t sequence = 0;
  int interval = 0;  // from 1, the lowest
  float strength = 0;
};

// Of each head: its strongest sequences, which are of the highest interval, and
// of each other interval those of the drawn ones that come first. An interval
// ends where so large a share of the drawn sequences lies below.
std::vector<std::vector<KeptSequence>> ChooseSequences(const AtlasSums& sums,
                                                       const AtlasJob& job);

}  // namespace headwise
