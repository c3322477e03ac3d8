// Claim: one head gives one distribution over positions, so a layer reads as
//   many independent things at once as it has heads.
// Expectation: k Gaussian values stand at marked places of a sequence, and one
//   layer of h heads is to return all of them: mean R² = min(1, h/k) ± .03.
// Kind: law, for heads whose scores depend on positions only and whose values
//   read only the scalar. Then head i returns a_iᵀv for a fixed row a_i, and
//   what a linear read-out of h such numbers can explain of k independent ones
//   is at most an h-dimensional subspace: Σ R² ≤ min(h, k). Training shows
//   that the bound is reached. Heads that may read all (the free variant) have
//   no such bound: their scores can depend on the values.
#include "headwise/study/k_lookup.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "headwise/study/support/toy.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace {

constexpr int64_t kWidth = 64;
constexpr int64_t kPlaces = 16;  // of which the first k are marked
constexpr int64_t kBatch = 32;
constexpr int64_t kTested = 2048;  // sequences
constexpr int64_t kHeadCounts[] = {1, 2, 4, 8, 16};
constexpr int64_t kValueCounts[] = {1, 2, 4, 8};
constexpr double kTolerance = 0.03;
// Small features make scores learn slower than the read-out, which then keeps
// the heads apart; heads that settle first may settle on one place together.
constexpr double kFeatureSize = 0.3;

// Inputs are a place's random features and, in the last column, its value.
class Lookup {
 public:
  Lookup(int64_t values, uint64_t seed) : values_(values) {
    Rng rng(seed, 1);
    places_ = RandomNormal(kPlaces + 1, kWidth - 1, rng);  // last: the query
  }

  ToyBatch Make(Rng& rng, int64_t sequences) const {
    ToyBatch batch{Tensor(DType::kF32, {sequences, 1, kWidth}),
                   Tensor(DType::kF32, {sequences, kPlaces, kWidth}),
                   Tensor(DType::kF32, {sequences, 1, values_})};
    for (int64_t b = 0; b < sequences; ++b) {
      SetFeatures(kPlaces, batch.x.As<float>() + b * kWidth);
      for (int64_t j = 0; j < kPlaces; ++j) {
        float* row = batch.source.As<float>() + (b * kPlaces + j) * kWidth;
        SetFeatures(j, row);
        row[kWidth - 1] = static_cast<float>(rng.Normal());
        if (j >= values_) continue;
        batch.target.As<float>()[b * values_ + j] = row[kWidth - 1];
      }
    }
    return batch;
  }

 private:
  void SetFeatures(int64_t place, float* row) const {
    for (int64_t c = 0; c < kWidth - 1; ++c) {
      row[c] = static_cast<float>(kFeatureSize * places_(place, c));
    }
  }

  int64_t values_;
  Matrix places_;
};

// Keys read no value, values read nothing else: of the weights, or of their
// gradients.
void SeparateReading(MultiHeadAttentionParameters& parameters) {
  float* w_k = parameters.w_k.As<float>();
  std::fill_n(w_k + (kWidth - 1) * kWidth, kWidth, 0.0f);
  std::fill_n(parameters.w_v.As<float>(), (kWidth - 1) * kWidth, 0.0f);
}

}  // namespace

double LearnLookup(Context& context, const LookupCase& one, StudyClock& clock) {
  const Lookup lookup(one.values, one.seed);
  MultiHeadAttention module({.d_model = kWidth, .heads = one.heads}, one.seed);
  ToyTraining how;
  how.steps = one.steps;
  how.rate = one.rate;
  how.seed = one.seed;
  if (one.separate) {
    SeparateReading(module.parameters());
    // A value of unit size enters the heads at unit size.
    float* w_v = module.parameters().w_v.As<float>() + (kWidth - 1) * kWidth;
    for (int64_t c = 0; c < kWidth; ++c) w_v[c] *= 8;
    how.freeze = SeparateReading;
  }
  TrainToy(
      context, module, [&](Rng& rng) { return lookup.Make(rng, kBatch); }, how,
      clock);
  Rng fresh(one.seed, 2);
  const std::vector<double> shares =
      ExplainedShares(context, module, lookup.Make(fresh, kTested));
  return std::accumulate(shares.begin(), shares.end(), 0.0) /
         static_cast<double>(shares.size());
}

namespace {

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const int64_t steps = StudySteps(request, 500, 1500);
  std::vector<LookupCase> cases;
  for (const bool separate : {true, false}) {
    for (const int64_t k : kValueCounts) {
      for (const int64_t h : kHeadCounts) {
        // Of free heads, only where the others fail and one might not.
        if (!separate && (h > 2 || h >= k)) continue;
        cases.push_back(
            {.heads = h, .values = k, .separate = separate, .steps = steps});
      }
    }
  }
  StudyClock clock(
      request, "k-lookup",
      static_cast<int64_t>(cases.size() * result.seeds.size()) * steps);
  LinePlot plot{"Values returned by one layer (mean R²), by heads",
                "heads",
                "mean R²",
                true,
                false,
                {}};
  StudyTable table{"Mean R² and min(1, h/k)",
                   {"heads", "values", "scores read", "R²", "law"},
                   {}};
  const std::vector<std::vector<double>> shares =
      RunCases(context, cases.size(), result.seeds,
               [&](Context& own, size_t which, uint64_t seed) {
                 LookupCase one = cases[which];
                 one.seed = seed;
                 return LearnLookup(own, one, clock);
               });
  for (size_t i = 0; i < cases.size(); ++i) {
    const LookupCase& one = cases[i];
    const Interval mean = OverSeeds(shares[i]);
    const bool free = !one.separate;
    const double law = std::min(
        1.0, static_cast<double>(one.heads) / static_cast<double>(one.values));
    const std::string at = fmt::format("h = {}, k = {}", one.heads, one.values);
    table.rows.push_back({fmt::format("{}", one.heads),
                          fmt::format("{}", one.values),
                          free ? "all" : "places", ShowInterval(mean),
                          free ? "" : fmt::format("{:.3g}", law)});
    if (free) {
      result.Report("free, " + at + ": mean R²", mean);
      continue;
    }
    result.Near(at + ": mean R²", mean, law, kTolerance);
    if (one.heads == kHeadCounts[0]) {
      plot.series.push_back({fmt::format("k = {}", one.values), {}, {}});
    }
    plot.series.back().x.push_back(static_cast<double>(one.heads));
    plot.series.back().y.push_back(mean.value);
  }
  result.pictures.push_back(std::move(plot));
  result.tables.push_back(std::move(table));
  result.remark =
      "Free heads see places and values in their scores too; nothing is "
      "expected of them, since one head's scores can then tell several values "
      "apart.";
  return result;
}

}  // namespace

const Study kKLookupStudy = {
    .name = "k-lookup",
    .claim =
        "One head is one distribution: a layer of h heads returns h "
        "independent values at once, not more.",
    .expectation = "mean R² = min(1, h/k) ± .03",
    .kind = StudyKind::kLaw,
    .run = Run,
    .trained = true};

}  // namespace headwise
