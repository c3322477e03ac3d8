// Sampled rows against embeddings. Door: semantic.h.
#include "headwise/heads/profile/semantic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/base/rng.h"
#include "headwise/heads/profile/host_result.h"
#include "headwise/nn/release.h"
#include "headwise/ops/embedding/embedding.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

constexpr int64_t kTokensPerRow = 256;
constexpr int64_t kMostRows = 4;
constexpr size_t kLeastKeys = 8;
constexpr const char* kMetric = "semantic";
constexpr const char* kControl = "semantic.chance";

// A number that orders as the float does, equal for 0 and −0.
uint32_t OrderOf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000;
}

Ranks RanksOf(std::span<const float> values) {
  const size_t n = values.size();
  // Values above, indices below: sorted as whole numbers.
  std::vector<uint64_t> order(n);
  for (size_t i = 0; i < n; ++i) {
    order[i] = (uint64_t{OrderOf(values[i])} << 32) | i;
  }
  std::sort(order.begin(), order.end());
  Ranks ranks;
  ranks.centred.resize(n);
  const double middle = (static_cast<double>(n) - 1) / 2;
  double squares = 0;
  for (size_t i = 0; i < n;) {
    size_t end = i + 1;
    while (end < n && order[end] >> 32 == order[i] >> 32) ++end;
    const double rank = (static_cast<double>(i + end) - 1) / 2 - middle;
    for (; i < end; ++i) {
      ranks.centred[static_cast<uint32_t>(order[i])] = rank;
      squares += rank * rank;
    }
  }
  ranks.norm = std::sqrt(squares);
  return ranks;
}

double Correlation(const Ranks& a, const Ranks& b) {
  if (a.norm == 0 || b.norm == 0) return 0;
  double sum = 0;
  for (size_t i = 0; i < a.centred.size(); ++i) {
    sum += a.centred[i] * b.centred[i];
  }
  return sum / (a.norm * b.norm);
}

std::vector<int32_t> KeysOf(const SiteNotes& site, const SiteNotes::Sequence& s,
                            int64_t i) {
  const SiteNotes::Row& row = site.rows[s.query_begin + i];
  const TokenNotes& notes = *s.key_notes;
  std::vector<int32_t> keys;
  for (int32_t j = row.low; j < row.high; ++j) {
    if (std::abs(j - i) <= 1 || SiteNotes::IsSink(s, j)) continue;
    if (notes.ids[j] == notes.ids[i] || notes.word[j] == notes.word[i]) {
      continue;
    }
    keys.push_back(j);
  }
  return keys;
}

// Rows of a sequence by its hash.
std::vector<int64_t> DrawRows(const SiteNotes& site,
                              const SiteNotes::Sequence& s) {
  std::vector<int64_t> rows;
  const int64_t count =
      std::clamp<int64_t>(s.queries / kTokensPerRow, 1, kMostRows);
  Rng rng(s.key);
  for (int64_t tries = 0; tries < 2 * count; ++tries) {
    const int64_t i =
        static_cast<int64_t>(rng.Below(static_cast<uint64_t>(s.queries)));
    if (!site.rows[s.query_begin + i].counted) continue;
    if (std::find(rows.begin(), rows.end(), i) != rows.end()) continue;
    rows.push_back(i);
    if (static_cast<int64_t>(rows.size()) == count) break;
  }
  return rows;
}

// A fixed permutation of [0, size): multiplication by a number prime to it.
int32_t Permuted(int32_t id, int64_t size) {
  int64_t factor = size / 2 + size / 9 + 1;
  while (std::gcd(factor, size) != 1) ++factor;
  return static_cast<int32_t>((id * factor + size / 3) % size);
}

class Cosines {
 public:
  Cosines(Context& context, ConstTensorView table)
      : context_(context), table_(table), width_(table.shape[1]) {}

  // Ranks of cos(E[id], E[others[n]]).
  Ranks Of(int32_t id, std::span<const int32_t> others) {
    constexpr size_t kChunk = 4096;
    std::vector<float> row(width_);
    const int32_t one[] = {id};
    EmbeddingForward(context_, {},
                     {table_, ViewOf(one), View(row.data(), {1, width_})});
    chunk_.resize(
        std::max(chunk_.size(), std::min(kChunk, others.size()) * width_));
    std::vector<float> cosines(others.size());
    for (size_t begin = 0; begin < others.size(); begin += kChunk) {
      const size_t count = std::min(kChunk, others.size() - begin);
      EmbeddingForward(
          context_, {},
          {table_, ViewOf(others.subspan(begin, count)),
           View(chunk_.data(), {static_cast<int64_t>(count), width_})});
      for (size_t n = 0; n < count; ++n) {
        const float* other = chunk_.data() + n * width_;
        // The row's own length changes no rank.
        const double square = Dot(other, other);
        cosines[begin + n] = square == 0
                                 ? 0
                                 : static_cast<float>(Dot(row.data(), other) /
                                                      std::sqrt(square));
      }
    }
    return RanksOf(cosines);
  }

 private:
  // Of [width], in four sums that run side by side.
  double Dot(const float* a, const float* b) const {
    double sums[4] = {};
    int64_t d = 0;
    for (; d + 4 <= width_; d += 4) {
      for (int64_t l = 0; l < 4; ++l) {
        sums[l] += static_cast<double>(a[d + l]) * b[d + l];
      }
    }
    for (; d < width_; ++d) sums[0] += static_cast<double>(a[d]) * b[d];
    return sums[0] + sums[1] + sums[2] + sums[3];
  }

  Context& context_;
  ConstTensorView table_;
  int64_t width_;
  std::vector<float> chunk_;  // memory for embeddings
};

}  // namespace

double RankAgreement(std::span<const float> a, std::span<const float> b) {
  return Correlation(RanksOf(a), RanksOf(b));
}

void PrepareSemantic(Profile& profile) {
  profile.Tallies(kMetric);
  profile.Tallies(kControl);
}

std::vector<SemanticSample> DrawSemantic(Context& context,
                                         const SiteNotes& site,
                                         const Parameter& embeddings) {
  const ConstTensorView table = embeddings.value;
  const int64_t size = table.shape[0];
  Cosines cosines(context, table);
  std::vector<SemanticSample> samples;
  size_t read = 0;
  for (size_t b = 0; b < site.sequences.size(); ++b) {
    const SiteNotes::Sequence& s = site.sequences[b];
    const std::vector<int32_t>& tokens = s.key_notes->ids;
    for (const int64_t i : DrawRows(site, s)) {
      SemanticSample sample;
      sample.ref = {static_cast<int64_t>(b), i};
      sample.keys = KeysOf(site, s, i);
      if (sample.keys.size() < kLeastKeys) continue;
      std::vector<int32_t> ids, permuted;
      for (const int32_t j : sample.keys) {
        ids.push_back(tokens[j]);
        permuted.push_back(Permuted(tokens[j], size));
      }
      read += ids.size();
      sample.cosine = cosines.Of(tokens[i], ids);
      sample.permuted = cosines.Of(Permuted(tokens[i], size), permuted);
      samples.push_back(std::move(sample));
    }
  }
  ReleaseTable(embeddings, read);
  return samples;
}

void AddSemantic(Context& context, const HeadSource& source,
                 const SiteResults& results,
                 std::span<const SemanticSample> samples, ProfilePlace place) {
  if (samples.empty()) return;
  std::vector<Tally>& tallies = place.profile->Tallies(kMetric);
  std::vector<Tally>& control = place.profile->Tallies(kControl);
  const int64_t heads = results.heads(), keys = source.problem.key_len;
  const int64_t rows = static_cast<int64_t>(samples.size());
  std::vector<RowRef> refs;
  for (const SemanticSample& sample : samples) refs.push_back(sample.ref);
  HostResult shares(context, DType::kF32, {rows, heads, keys});
  AttentionRows(context, source.problem, source.args, refs, shares.view());
  shares.Fetch(context);
  context.pool().ParallelFor(heads, [&](int64_t h, int) {
    std::vector<float> mass;
    // The samples of a sequence stand together: one entry of the tally.
    for (int64_t r = 0; r < rows;) {
      const int64_t sequence = refs[r].sequence;
      double sum = 0, control_sum = 0, count = 0;
      for (; r < rows && refs[r].sequence == sequence; ++r) {
        const SemanticSample& sample = samples[r];
        const int64_t t =
            results.notes().sequences[sequence].query_begin + sample.ref.query;
        if (!std::isfinite(results.entropy(h, t))) continue;
        const float* p = shares.As<float>() + (r * heads + h) * keys;
        mass.clear();
        // The host's smallest share, on which devices go below: ranks among
        // what is nothing are none.
        for (const int32_t j : sample.keys) {
          mass.push_back(std::max(p[j], std::numeric_limits<float>::min()));
        }
        const Ranks ranks = RanksOf(mass);
        sum += Correlation(ranks, sample.cosine);
        control_sum += Correlation(ranks, sample.permuted);
        count += 1;
      }
      tallies[place.first + h].Add(sum, count);
      control[place.first + h].Add(control_sum, count);
    }
  });
}

}  // namespace headwise
