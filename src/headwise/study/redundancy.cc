// Claim: heads can be redundant: identical heads are one head, and heads of a
//   layer resemble each other more than heads of different layers.
// Expectation: for heads with equal W_Q, W_K, W_V the layer is one head,
//   MHA(X) = A·X·(W_V Σ W_O^h), to rounding: law. In a trained model
//   distributions (Jensen–Shannon) and outputs (CKA) of heads in one layer are
//   closer than across layers (Clark et al. 2019): literature. What removing
//   two heads costs beyond the sum of each is reported.
// Kind: literature, with figures that are laws.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "headwise/heads/similarity/similarity.h"
#include "headwise/multi_head_attention.h"
#include "headwise/runtime/gates.h"
#include "headwise/study/support/head_scores.h"
#include "headwise/study/support/tiny_model.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace redundancy_study {
namespace {

constexpr int64_t kLayers = 3, kHeads = 4;
constexpr Repeats kText = {};
constexpr int64_t kCompared = 32;  // sequences
constexpr int64_t kEvaluated = 8;

// Largest difference between a layer of equal heads and the one head that it
// is, relative to the largest output.
double IdentityDifference(Context& context, int64_t heads) {
  constexpr int64_t kWidth = 32, kWords = 10;
  MultiHeadAttention module({.d_model = kWidth, .heads = heads}, 1);
  const int64_t dim = kWidth / heads;
  MultiHeadAttentionParameters& p = module.parameters();
  for (Tensor* w : {&p.w_q, &p.w_k, &p.w_v}) {
    for (int64_t r = 0; r < kWidth; ++r) {
      float* row = w->As<float>() + r * kWidth;
      for (int64_t h = 1; h < heads; ++h) std::copy_n(row, dim, row + h * dim);
    }
  }
  Rng rng(1, static_cast<uint64_t>(heads));
  const Tensor x = AsSequence(RandomNormal(kWords, kWidth, rng));
  const Matrix out = FromTensor(module.Forward(context, {.x = x.view()}));
  Matrix content(kWidth, kWidth);  // Σ_h W_V W_O^h
  for (int64_t h = 0; h < heads; ++h) {
    const Matrix one = FromTensor(module.Content(context, h).output);
    for (size_t i = 0; i < one.values.size(); ++i) {
      content.values[i] += one.values[i];
    }
  }
  const Matrix a = FromTensor(module.Weights(context, 0, {.x = x.view()}));
  double largest = 0;
  for (const double value : out.values) {
    largest = std::max(largest, std::abs(value));
  }
  return MaxDifference(out, a * (FromTensor(x) * content)) / largest;
}

// Means of a matrix over pairs of heads in one layer, and in two.
struct Closeness {
  double within = 0, across = 0;
};
Closeness MeanByLayer(const Matrix& values) {
  Closeness mean;
  double within = 0, across = 0;
  for (int64_t a = 0; a < values.rows; ++a) {
    for (int64_t b = 0; b < a; ++b) {
      const bool same = a / kHeads == b / kHeads;
      (same ? mean.within : mean.across) += values(a, b);
      (same ? within : across) += 1;
    }
  }
  mean.within /= within;
  mean.across /= across;
  return mean;
}

// What removing two heads costs beyond the sum of removing each, largest and
// mean over pairs, nats.
struct Interaction {
  double largest = 0, mean = 0;
};
Interaction RemovePairs(Context& context, const Model& model,
                        const BatchSource& data) {
  auto loss = [&](const std::vector<HeadRef>& closed) {
    ClosedHeads gates(model, closed);
    return LossWith(context, model, data, kEvaluated, &gates);
  };
  const std::vector<HeadRef> heads = AllHeads(model);
  const double whole = loss({});
  std::vector<double> alone;
  for (const HeadRef& head : heads) alone.push_back(loss({head}) - whole);
  Interaction found;
  double pairs = 0;
  for (size_t a = 0; a < heads.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const double beyond =
          loss({heads[b], heads[a]}) - whole - alone[a] - alone[b];
      found.largest = pairs == 0 ? beyond : std::max(found.largest, beyond);
      found.mean += beyond;
      pairs += 1;
    }
  }
  found.mean /= pairs;
  return found;
}

struct Measured {
  Closeness jsd, cka;
  Interaction pairs;
  Matrix divergence;
};

Measured Measure(Context& context, uint64_t seed, int64_t steps,
                 StudyClock& clock) {
  const TrainConfig how = TinyTraining(seed, steps);
  TinyModel tiny(context,
                 TinyLlama({.layers = kLayers,
                            .heads = kHeads,
                            .width = 64,
                            .hidden = 128,
                            .vocabulary = kText.vocabulary,
                            .tied = false}),
                 how);
  tiny.Train(RepeatBatches(kText, seed), clock);
  const MadeBatches held_out = RepeatBatches(kText, 1000 + seed, true);
  std::vector<TokenWindow> windows(kCompared);
  for (int64_t i = 0; i < kCompared; ++i) {
    TokenWindow& window = windows[i];
    window.source.ids = held_out.Make(i, 1).ids;
    window.source.spans.resize(window.source.ids.size());
    window.source.added.resize(window.source.ids.size());
    window.key = static_cast<uint64_t>(i);
  }
  const HeadSimilarity similar = CompareHeads(context, tiny.model(), windows);
  Matrix jsd = FromTensor(similar.jsd);
  return {MeanByLayer(jsd), MeanByLayer(FromTensor(similar.cka)),
          RemovePairs(context, tiny.model(), held_out), std::move(jsd)};
}

HeatMap DrawDivergence(const Matrix& jsd) {
  HeatMap map{
      "Divergence of heads from each other (1: disjoint), seed 1", {}, {}, {}};
  for (int64_t i = 0; i < jsd.rows; ++i) {
    map.rows.push_back(fmt::format("{}.{}", i / kHeads, i % kHeads));
  }
  map.columns = map.rows;
  for (const double value : jsd.values) {
    map.values.push_back(value / std::numbers::ln2);
  }
  return map;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  result.Expect(StudyKind::kLaw);
  for (const int64_t heads : {2, 4, 8}) {
    result.AtMost(
        fmt::format("{} identical heads − the one they are, relative", heads),
        IdentityDifference(context, heads), 1e-5);
  }
  const int64_t steps = StudySteps(request, 800, 3000);
  StudyClock clock(request, "redundancy",
                   static_cast<int64_t>(result.seeds.size()) * steps);
  std::vector<double> jsd[2], cka[2], ratio, gain, largest, mean;
  for (const uint64_t seed : result.seeds) {
    const Measured m = Measure(context, seed, steps, clock);
    jsd[0].push_back(m.jsd.within);
    jsd[1].push_back(m.jsd.across);
    cka[0].push_back(m.cka.within);
    cka[1].push_back(m.cka.across);
    ratio.push_back(m.jsd.within / m.jsd.across);
    gain.push_back(m.cka.within - m.cka.across);
    largest.push_back(m.pairs.largest);
    mean.push_back(m.pairs.mean);
    if (seed == 1) result.pictures.push_back(DrawDivergence(m.divergence));
  }
  result.Expect(StudyKind::kLiterature);
  result.AtMost("divergence within layers / across layers",
                OverSeeds(ratio, kNotNegative), 1);
  result.AtLeast("CKA within layers − across layers", OverSeeds(gain), 0);
  result.Report("removing two heads beyond the sum of each, largest, nats",
                OverSeeds(largest));
  result.Report("the same, mean over pairs", OverSeeds(mean));
  auto row = [](const char* name, const std::vector<double>* by) {
    return std::vector<std::string>{name, ShowInterval(OverSeeds(by[0])),
                                    ShowInterval(OverSeeds(by[1]))};
  };
  result.tables.push_back({"Heads of a trained model of 3 layers × 4 heads",
                           {"mean over pairs", "same layer", "other layers"},
                           {row("divergence (JSD, nats)", jsd),
                            row("similarity of outputs (CKA)", cka)}});
  result.remark =
      "Identical heads lose their number: h of them have the rank of one. A "
      "pair whose removal costs more than the sum of each backs the other up.";
  return result;
}

}  // namespace
}  // namespace redundancy_study

const Study kRedundancyStudy = {
    .name = "redundancy",
    .claim =
        "Identical heads are one head, and heads of a layer resemble each "
        "other.",
    .expectation =
        "MHA ≡ A·X·(W_V W_O) for identical heads (law); divergence "
        "lower and CKA higher within layers than across",
    .kind = StudyKind::kLiterature,
    .run = redundancy_study::Run,
    .trained = true};

}  // namespace headwise
