// Claim: one head gives one distribution over positions, so a layer reads as
//   many independent things at once as it has heads.
// Expectation: k Gaussian values stand at marked places of a sequence, and one
//   layer of h heads is to return all of them: mean R² = min(1, h/k) ± .03.
// Kind: hypothesis, with figures that are laws: of restricted heads, whose
//   scores depend on positions only and whose values read only the scalar.
//   Head i then returns a_iᵀv for a fixed row a_i, and what a linear read-out
//   of h such numbers can explain of k independent ones is at most an
//   h-dimensional subspace: Σ R² ≤ min(h, k). Training shows that the bound is
//   reached. Free heads, which may read all, have no such bound: their scores
//   can depend on the values, and values that read places tell whose they were.
//   With noise on the places that values read, of twice a place's size, this
//   way is drowned: R² ≤ h/k + .05 is expected of them where h < k, and ≥ .9
//   where h = k. Free heads without noise are reported.
#include "headwise/study/k_lookup.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "headwise/study/support/toy.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace k_lookup_study {
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
constexpr int64_t kFeatures = kWidth - 1;
// Deviation of the noise in any direction; a place's features have length
// .3 · √63 = 2.4.
constexpr double kNoise = 4.8;

// Inputs are a place's random features, in a noisy form once more where values
// read that, and in the last column its value.
class Lookup {
 public:
  explicit Lookup(const LookupCase& one) : values_(one.values) {
    Rng rng(one.seed, 1);
    places_ = RandomNormal(kPlaces + 1, kFeatures, rng);  // last: the query
    noisy_ = one.form == LookupForm::kNoisy;
  }

  int64_t source_dim() const { return kWidth + (noisy_ ? kFeatures : 0); }

  ToyBatch Make(Rng& rng, int64_t sequences) const {
    ToyBatch batch{Tensor(DType::kF32, {sequences, 1, kWidth}),
                   Tensor(DType::kF32, {sequences, kPlaces, source_dim()}),
                   Tensor(DType::kF32, {sequences, 1, values_})};
    for (int64_t b = 0; b < sequences; ++b) {
      SetFeatures(kPlaces, batch.x.As<float>() + b * kWidth);
      for (int64_t j = 0; j < kPlaces; ++j) {
        float* row =
            batch.source.As<float>() + (b * kPlaces + j) * source_dim();
        SetFeatures(j, row);
        if (noisy_) SetNoisyFeatures(row, rng);
        float& value = row[source_dim() - 1];
        value = static_cast<float>(rng.Normal());
        if (j < values_) batch.target.As<float>()[b * values_ + j] = value;
      }
    }
    return batch;
  }

 private:
  void SetFeatures(int64_t place, float* row) const {
    for (int64_t c = 0; c < kFeatures; ++c) {
      row[c] = static_cast<float>(kFeatureSize * places_(place, c));
    }
  }
  static void SetNoisyFeatures(float* row, Rng& rng) {
    for (int64_t c = 0; c < kFeatures; ++c) {
      row[kFeatures + c] = row[c] + static_cast<float>(kNoise * rng.Normal());
    }
  }

  int64_t values_;
  bool noisy_;
  Matrix places_;
};

void CloseRows(Tensor& weight, int64_t first, int64_t count) {
  std::fill_n(weight.As<float>() + first * kWidth, count * kWidth, 0.0f);
}

// What keys and values do not read: of the weights, or of their gradients.
void CloseForm(LookupForm form, MultiHeadAttentionParameters& parameters) {
  switch (form) {
    case LookupForm::kRestricted:
      CloseRows(parameters.w_k, kFeatures, 1);
      CloseRows(parameters.w_v, 0, kFeatures);
      return;
    case LookupForm::kNoisy:
      CloseRows(parameters.w_k, kFeatures, kFeatures);
      CloseRows(parameters.w_v, 0, kFeatures);
      return;
    case LookupForm::kFree:
      return;
  }
}

// At first values read the scalar alone, and one of unit size enters the heads
// at unit size; noisy places they may learn to read.
void BeginWithValues(int64_t source_dim,
                     MultiHeadAttentionParameters& parameters) {
  CloseRows(parameters.w_v, 0, source_dim - 1);
  float* w_v = parameters.w_v.As<float>() + (source_dim - 1) * kWidth;
  for (int64_t c = 0; c < kWidth; ++c) w_v[c] *= 8;
}

std::vector<LookupCase> Cases(int64_t steps) {
  std::vector<LookupCase> cases;
  for (const LookupForm form :
       {LookupForm::kRestricted, LookupForm::kNoisy, LookupForm::kFree}) {
    for (const int64_t k : kValueCounts) {
      for (const int64_t h : kHeadCounts) {
        // Of free heads, where one or two might do more than their share;
        // with noise, where they are enough as well.
        const bool fewer = h <= 2 && h < k;
        const bool enough = h == k && (k == 2 || k == 4);
        if (form == LookupForm::kFree && !fewer) continue;
        if (form == LookupForm::kNoisy && !fewer && !enough) continue;
        cases.push_back(
            {.heads = h, .values = k, .form = form, .steps = steps});
      }
    }
  }
  return cases;
}

double ShareOf(const LookupCase& one) {
  return std::min(
      1.0, static_cast<double>(one.heads) / static_cast<double>(one.values));
}

void Judge(const LookupCase& one, const SeedMean& mean, StudyResult& result) {
  const std::string at =
      fmt::format("h = {}, k = {}: mean R²", one.heads, one.values);
  switch (one.form) {
    case LookupForm::kRestricted:
      result.Expect(StudyKind::kLaw);
      result.Near("restricted, " + at, mean, ShareOf(one), kTolerance);
      return;
    case LookupForm::kNoisy:
      result.Expect(StudyKind::kHypothesis);
      if (one.heads < one.values) {
        result.AtMost("free, noisy, " + at, mean, ShareOf(one) + 0.05);
        result.Between(0, 1);
      } else {
        // To return all is what is expected: no end to keep from.
        result.AtLeast("free, noisy, " + at, mean, 0.9);
      }
      return;
    case LookupForm::kFree:
      result.Report("free, " + at, mean);
      return;
  }
}

void Tell(const std::vector<LookupCase>& cases,
          const std::vector<std::vector<double>>& shares, StudyResult& result) {
  LinePlot plot{"Values returned by one layer (mean R²), by heads",
                "heads",
                "mean R²",
                true,
                false,
                {}};
  StudyTable table{"Mean R² and min(1, h/k)",
                   {"heads", "values", "form", "R²", "min(1, h/k)"},
                   {}};
  constexpr const char* kForms[] = {"restricted", "free, noisy", "free"};
  for (size_t i = 0; i < cases.size(); ++i) {
    const LookupCase& one = cases[i];
    const SeedMean mean = OverSeeds(shares[i], kExplained);
    Judge(one, mean, result);
    table.rows.push_back(
        {fmt::format("{}", one.heads), fmt::format("{}", one.values),
         kForms[static_cast<int>(one.form)], ShowInterval(mean),
         fmt::format("{:.3g}", ShareOf(one))});
    if (one.form != LookupForm::kRestricted) continue;
    if (one.heads == kHeadCounts[0]) {
      plot.series.push_back({fmt::format("k = {}", one.values), {}, {}});
    }
    plot.series.back().x.push_back(static_cast<double>(one.heads));
    plot.series.back().y.push_back(mean.value);
  }
  result.pictures.push_back(std::move(plot));
  result.tables.push_back(std::move(table));
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const std::vector<LookupCase> cases = Cases(StudySteps(request, 500, 1500));
  StudyClock clock(request, "k-lookup",
                   static_cast<int64_t>(cases.size() * result.seeds.size()) *
                       cases[0].steps);
  Tell(cases,
       RunCases(context, cases.size(), result.seeds,
                [&](Context& own, size_t which, uint64_t seed) {
                  LookupCase one = cases[which];
                  one.seed = seed;
                  return LearnLookup(own, one, clock);
                }),
       result);
  result.remark =
      "Restricted: scores read places, values the scalar. Free heads read all; "
      "without noise nothing is expected of them, since one head's scores can "
      "then tell several values apart.";
  return result;
}

constexpr StudyChange kHistory[] = {
    {.first = "free heads were reported without an expectation: one head "
              "leaks several values through what its values read of places",
     .changed =
         "free heads whose values read places with noise, judged "
         "beside the restricted ones, which are a law; test data of their "
         "own, which were those of training step 2",
     .why = "a limit of restricted heads alone says little of heads; seed 101 "
            "was looked at",
     .commit = "Studies limits and k-lookup: free heads whose values are "
               "noisy, judged on seeds 11 to 15"},
};

}  // namespace
}  // namespace k_lookup_study

double LearnLookup(Context& context, const LookupCase& one, StudyClock& clock) {
  const k_lookup_study::Lookup lookup(one);
  MultiHeadAttention module({.d_model = k_lookup_study::kWidth,
                             .heads = one.heads,
                             .source_dim = lookup.source_dim()},
                            one.seed);
  ToyTraining how;
  how.steps = one.steps;
  how.rate = one.rate;
  how.seed = one.seed;
  how.freeze = [&](MultiHeadAttentionParameters& parameters) {
    k_lookup_study::CloseForm(one.form, parameters);
  };
  how.freeze(module.parameters());
  if (one.form != LookupForm::kFree) {
    k_lookup_study::BeginWithValues(lookup.source_dim(), module.parameters());
  }
  TrainToy(
      context, module,
      [&](Rng& rng) { return lookup.Make(rng, k_lookup_study::kBatch); }, how,
      clock);
  Rng fresh(one.seed, uint64_t{1} << 32);  // no step's
  const std::vector<double> shares = ExplainedShares(
      context, module, lookup.Make(fresh, k_lookup_study::kTested));
  return std::accumulate(shares.begin(), shares.end(), 0.0) /
         static_cast<double>(shares.size());
}

const Study kKLookupStudy = {
    .name = "k-lookup",
    .claim =
        "One head is one distribution: a layer of h heads returns h "
        "independent values at once, not more; restricted to scores of places "
        "and values of scalars (law), or free with noisy values.",
    .expectation =
        "restricted: mean R² = min(1, h/k) ± .03; free, noisy: ≤ h/k + .05, "
        "and ≥ .9 with as many heads as values",
    .kind = StudyKind::kHypothesis,
    .run = k_lookup_study::Run,
    .trained = true,
    .revision = 2,
    .history = k_lookup_study::kHistory,
    .fresh_seeds = kFreshSeeds<11>};

}  // namespace headwise
