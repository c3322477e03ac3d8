// Claim: one head of width d_k can show any strictly positive attention matrix
//   when d_k is large enough, and not when it is too small (part a: what a head
//   can express); and one wide head learns the nearest neighbour, which many
//   narrow ones do not (part b: rank_neighbour.cc).
// Expectation: (a) with X of full rank, exact for any strictly positive P at
//   d_k ≥ n − 1; a residual above 0 for generic P at d_k ≤ n − 2. (b) 1 × 64
//   misses less than 8 × 8 and 64 × 1.
// Kind: law (a), which alone decides; literature (b).
//
// Why n − 1. softmax ignores row constants, so a head shows P exactly when its
// logits are Z = ln P + r·1ᵀ for some r. Let C = I − 11ᵀ/n remove row means:
// that is ZC = (ln P)C =: L, whose rank is at most n − 1 because C1 = 0. So
// Z = L works and factors through n − 1 dimensions (its SVD gives W_Q, W_K).
// Conversely rank(ZC) ≤ d_k, so by Eckart–Young ‖ZC − L‖₂ ≥ σ_{d_k+1}(L) for
// every possible head: a bound that no optimiser enters, reached by truncation.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "headwise/base/distribution.h"
#include "headwise/multi_head_attention.h"
#include "headwise/study/rank_neighbour.h"
#include "headwise/study/study.h"
#include "headwise/study/support/trained.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace rank_study {
namespace {

constexpr uint64_t kSeed = 1;

// Row-stochastic, strictly positive: softmax of normal logits times
// `sharpness`.
Matrix RandomStochastic(int64_t n, double sharpness, Rng& rng) {
  Matrix p(n, n);
  for (int64_t r = 0; r < n; ++r) {
    std::vector<double> logits(static_cast<size_t>(n));
    for (double& value : logits) value = sharpness * rng.Normal();
    const std::vector<double> row = Softmax(logits);
    std::copy(row.begin(), row.end(), &p.values[r * n]);
  }
  return p;
}

// (ln P) C: logarithms less their row means.
Matrix CentredLog(const Matrix& p) {
  Matrix l = p;
  for (int64_t r = 0; r < p.rows; ++r) {
    double mean = 0;
    for (int64_t c = 0; c < p.columns; ++c) {
      l(r, c) = std::log(p(r, c));
      mean += l(r, c) / static_cast<double>(p.columns);
    }
    for (int64_t c = 0; c < p.columns; ++c) l(r, c) -= mean;
  }
  return l;
}

// A single head of width d_k whose logits on x are L truncated to rank d_k.
MultiHeadAttention BestHead(const Svd& svd, const Matrix& x_inverse,
                            int64_t d_model, int64_t d_k) {
  MultiHeadAttention module({.d_model = d_model, .heads = 1, .head_dim = d_k},
                            kSeed);
  const int64_t n = svd.u.rows;
  Matrix left(n, d_k), right(n, d_k);
  const double unscale = std::sqrt(static_cast<double>(d_k));
  for (int64_t i = 0; i < d_k && i < n; ++i) {
    const double root = std::sqrt(svd.s[i] * unscale);
    for (int64_t r = 0; r < n; ++r) {
      left(r, i) = root * svd.u(r, i);
      right(r, i) = root * svd.v(r, i);
    }
  }
  SetColumns(module.parameters().w_q, 0, x_inverse * left);
  SetColumns(module.parameters().w_k, 0, x_inverse * right);
  return module;
}

double SpectralNorm(const Matrix& a) { return SingularValues(a).s[0]; }

Matrix Difference(Matrix a, const Matrix& b) {
  for (size_t i = 0; i < a.values.size(); ++i) a.values[i] -= b.values[i];
  return a;
}

struct Words {
  Matrix x;        // [n, d]
  Matrix inverse;  // pseudo-inverse, [d, n]
};

// d = 2n random features: of full rank, and well conditioned.
Words RandomWords(int64_t n, Rng& rng) {
  Words words;
  words.x = FromTensor(AsSequence(RandomNormal(n, 2 * n, rng)));
  words.inverse = PseudoInverse(words.x);
  return words;
}

Matrix Show(Context& context, const MultiHeadAttention& head, const Matrix& x) {
  const Tensor sequence = AsSequence(x);
  return FromTensor(head.Weights(context, 0, {.x = sequence.view()}));
}

// Exactness at n − 1 for mild, sharp and very sharp matrices.
void CheckExact(Context& context, int64_t n, StudyResult& result) {
  Rng rng(kSeed, static_cast<uint64_t>(n));
  double worst = 0, wider = 0, bound = std::numeric_limits<double>::infinity();
  double distance = std::numeric_limits<double>::infinity();
  for (int draw = 0; draw < 20; ++draw) {
    const double sharpness[] = {0.3, 1, 3};
    const Words words = RandomWords(n, rng);
    const Matrix p = RandomStochastic(n, sharpness[draw % 3], rng);
    const Svd svd = SingularValues(CentredLog(p));
    auto shown = [&](int64_t d_k) {
      return Show(context, BestHead(svd, words.inverse, words.x.columns, d_k),
                  words.x);
    };
    worst = Worst(worst, MaxDifference(shown(n - 1), p));
    wider = Worst(wider, MaxDifference(shown(n + 3), p));
    bound = std::min(bound, svd.s[n - 2]);
    distance = std::min(distance, MaxDifference(shown(n - 2), p));
  }
  const std::string at = fmt::format("n = {}", n);
  result.AtMost(at + ": largest |A − P| at d_k = n − 1", worst, 2e-5);
  result.AtMost(at + ": the same at d_k = n + 3", wider, 2e-5);
  result.AtLeast(at + ": least possible residual at n − 2", bound, 1e-3);
  result.AtLeast(at + ": |A − P| of the truncated head there", distance, 1e-4);
}

// Bound and what the truncated head reaches, for every d_k.
void Sweep(Context& context, StudyResult& result) {
  constexpr int64_t n = 12;
  Rng rng(kSeed, 100);
  const Words words = RandomWords(n, rng);
  const Matrix p = RandomStochastic(n, 1, rng);
  const Matrix l = CentredLog(p);
  const Svd svd = SingularValues(l);
  LinePlot plot{fmt::format("One head against a random {} × {} attention "
                            "matrix, by width",
                            n, n),
                "d_k",
                "residual",
                false,
                false,
                {{"least possible (σ of the logits)", {}, {}},
                 {"reached by the truncated head", {}, {}},
                 {"largest |A − P|", {}, {}}}};
  double gap = 0;
  for (int64_t d_k = 1; d_k <= n; ++d_k) {
    const Matrix shown = Show(
        context, BestHead(svd, words.inverse, words.x.columns, d_k), words.x);
    const double bound = d_k < n ? svd.s[d_k] : 0;
    const double reached = SpectralNorm(Difference(CentredLog(shown), l));
    gap = Worst(gap, std::abs(reached - bound));
    const double values[] = {bound, reached, MaxDifference(shown, p)};
    for (int i = 0; i < 3; ++i) {
      plot.series[i].x.push_back(static_cast<double>(d_k));
      plot.series[i].y.push_back(values[i]);
    }
  }
  result.AtMost("n = 12: bound − reached, worst of all d_k", gap, 1e-3);
  result.pictures.push_back(std::move(plot));
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  CheckExact(context, 4, result);
  CheckExact(context, 8, result);
  CheckExact(context, 16, result);
  Sweep(context, result);

  // Not every matrix needs the width: the uniform one has no logits at all.
  Rng rng(kSeed, 200);
  const Words words = RandomWords(8, rng);
  Matrix uniform(8, 8);
  std::fill(uniform.values.begin(), uniform.values.end(), 1.0 / 8);
  const Svd svd = SingularValues(CentredLog(uniform));
  result.AtMost(
      "n = 8, uniform P (not generic): |A − P| at d_k = 1",
      MaxDifference(Show(context, BestHead(svd, words.inverse, 16, 1), words.x),
                    uniform),
      1e-6);
  AddNearestNeighbour(context, request, result);
  result.remark =
      "(a) Worst of 20 random matrices for each n. Residuals are spectral "
      "norms of log-probabilities less their row means; the bound holds for "
      "every head of that width, whatever its weights.";
  return result;
}

}  // namespace
}  // namespace rank_study

const Study kRankStudy = {
    .name = "rank",
    .claim =
        "One head shows any strictly positive attention matrix if it is "
        "wide enough, and not if it is narrow.",
    .expectation =
        "exact at d_k ≥ n − 1; residual > 0 for generic P at d_k ≤ n − 2; "
        "learned, 1 × 64 beats 8 × 8 and 64 × 1 at nearest neighbours "
        "(literature)",
    .kind = StudyKind::kLaw,
    .run = rank_study::Run,
    .trained = true};

}  // namespace headwise
