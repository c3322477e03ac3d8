// Sampled rows against embeddings. Door: semantic.h.
#include "headwise/heads/profile/semantic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/base/rng.h"
#include "headwise/nn/release.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/rank_agreement/rank_agreement.h"
#include "headwise/ops/rank_agreement/ranks.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr int64_t kTokensPerRow = 256;
constexpr int64_t kMostRows = 4;
constexpr size_t kLeastKeys = 8;
constexpr int64_t kRankings = 2;  // of the cosines, and permuted
constexpr const char* kMetric = "semantic";
constexpr const char* kControl = "semantic.chance";

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

Tensor There(Context& context, const std::vector<int32_t>& values) {
  return ToDevice(context, ConstTensorView(ViewOf(values)));
}

// Rows, their keys one behind the other, and the tokens of both.
struct Draw {
  std::vector<RowRef> refs;
  std::vector<int32_t> rows, keys, starts, ids, others;
};

Draw DrawFrom(const SiteNotes& site) {
  Draw draw;
  draw.starts.push_back(0);
  for (size_t b = 0; b < site.sequences.size(); ++b) {
    const SiteNotes::Sequence& s = site.sequences[b];
    const std::vector<int32_t>& tokens = s.key_notes->ids;
    for (const int64_t i : DrawRows(site, s)) {
      const std::vector<int32_t> seen = KeysOf(site, s, i);
      if (seen.size() < kLeastKeys) continue;
      draw.refs.push_back({static_cast<int64_t>(b), i});
      draw.rows.push_back(static_cast<int32_t>(s.query_begin + i));
      draw.ids.push_back(tokens[i]);
      for (const int32_t j : seen) draw.others.push_back(tokens[j]);
      draw.keys.insert(draw.keys.end(), seen.begin(), seen.end());
      draw.starts.push_back(static_cast<int32_t>(draw.keys.size()));
    }
  }
  return draw;
}

}  // namespace

double RankAgreement(std::span<const float> a, std::span<const float> b) {
  return Correlation(RanksOf(a), RanksOf(b));
}

void PrepareSemantic(Profile& profile) {
  profile.Tallies(kMetric);
  profile.Tallies(kControl);
}

SemanticSamples DrawSemantic(Context& context, const SiteNotes& site,
                             const Model& model, const Stack& stack) {
  Draw draw = DrawFrom(site);
  SemanticSamples samples;
  if (draw.refs.empty()) return samples;
  const ConstTensorView table = model.TokenEmbeddings(context, stack);
  const auto count = static_cast<int64_t>(draw.rows.size());
  const auto entries = static_cast<int64_t>(draw.keys.size());
  samples.refs = std::move(draw.refs);
  samples.keys = There(context, draw.keys);
  samples.starts = There(context, draw.starts);
  samples.rows = There(context, draw.rows);
  // The lists of the permuted vocabulary behind the others.
  const auto permute = [&](std::vector<int32_t>& tokens) {
    const size_t half = tokens.size();
    for (size_t n = 0; n < half; ++n) {
      tokens.push_back(Permuted(tokens[n], table.shape[0]));
    }
  };
  permute(draw.ids);
  permute(draw.others);
  std::vector<int32_t> lists = draw.starts;
  for (int64_t r = 1; r <= count; ++r) {
    lists.push_back(static_cast<int32_t>(entries) + draw.starts[r]);
  }
  const Tensor ids = There(context, draw.ids);
  const Tensor others = There(context, draw.others);
  const Tensor starts = There(context, lists);
  samples.ranks = Tensor::Undefined(context, DType::kF32, {kRankings, entries});
  samples.norms = Tensor::Undefined(context, DType::kF64, {kRankings, count});
  CosineRanks(context,
              {.table = table,
               .ids = ids.view(),
               .others = others.view(),
               .starts = starts.view(),
               .ranks = Reshaped(samples.ranks.view(), {kRankings * entries}),
               .norms = Reshaped(samples.norms.view(), {kRankings * count})});
  ReleaseTable(stack.embeddings.tokens, draw.keys.size());
  context.Synchronize();  // the lists are read until then
  return samples;
}

Tensor SemanticAgreement(Context& context, const HeadSource& source,
                         const ConstTensorView& entropy,
                         const SemanticSamples& samples) {
  if (samples.refs.empty()) return {};
  const auto rows = static_cast<int64_t>(samples.refs.size());
  const int64_t heads = source.problem.heads;
  const Temp shares(context, DType::kF32,
                    {rows, heads, source.problem.key_len});
  AttentionRows(context, source.problem, source.args, samples.refs,
                shares.view());
  Tensor agreement =
      Tensor::Undefined(context, DType::kF64, {rows, heads, kRankings});
  RankAgreement(context, {.shares = shares.view(),
                          .keys = samples.keys.view(),
                          .starts = samples.starts.view(),
                          .ranks = samples.ranks.view(),
                          .norms = samples.norms.view(),
                          .entropy = entropy,
                          .rows = samples.rows.view(),
                          .agreement = agreement.view()});
  return agreement;
}

void AddSemantic(std::span<const double> agreement,
                 const SemanticSamples& samples, ProfilePlace place) {
  if (agreement.empty()) return;
  std::vector<Tally>& tallies = place.profile->Tallies(kMetric);
  std::vector<Tally>& control = place.profile->Tallies(kControl);
  const size_t rows = samples.refs.size();
  const size_t heads = agreement.size() / rows / kRankings;
  for (size_t h = 0; h < heads; ++h) {
    // The samples of a sequence stand together: one entry of the tally.
    for (size_t r = 0; r < rows;) {
      const int64_t sequence = samples.refs[r].sequence;
      double sum = 0, control_sum = 0, count = 0;
      for (; r < rows && samples.refs[r].sequence == sequence; ++r) {
        const double* found = &agreement[(r * heads + h) * kRankings];
        if (std::isnan(found[0])) continue;
        sum += found[0];
        control_sum += found[1];
        count += 1;
      }
      tallies[place.first + h].Add(sum, count);
      control[place.first + h].Add(control_sum, count);
    }
  }
}

}  // namespace headwise
