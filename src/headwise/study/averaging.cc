// Claim: one head must compromise where several relations matter at once: for
//   "sat" in "The cat sat on the mat", syntax, position and meaning each want
//   another distribution, and their average serves none.
// Expectation: KL of each ideal row to the mean .350, .636, .461 nats, .482 on
//   average, and no single row does better; three heads 0. Not "muddier than
//   each": the mean's entropy, 1.31, is below that of position, 1.37.
// Kind: law.
#include <fmt/core.h>

#include <cmath>
#include <vector>

#include "headwise/base/distribution.h"
#include "headwise/multi_head_attention.h"
#include "headwise/study/study.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace averaging_study {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kWords = 6;
using Row = std::vector<double>;

const std::vector<Row>& IdealRows() {
  static const std::vector<Row> rows = {
      {0, .8, 0, 0, 0, .2},    // syntax
      {.3, .3, .2, .2, 0, 0},  // position
      {0, .3, 0, 0, 0, .7},    // meaning
  };
  return rows;
}

constexpr const char* kNames[] = {"syntax", "position", "meaning"};

double MeanKl(const Row& q) {
  double sum = 0;
  for (const Row& row : IdealRows()) sum += KlDivergence(row, q) / 3;
  return sum;
}

// Three heads that look exactly where each relation wants: words are one-hot,
// the query's logits are ln p (−60 for 0), read by W_K of each head.
std::vector<Row> ThreeHeads(Context& context) {
  MultiHeadAttention module({.d_model = kWords, .heads = 3, .head_dim = 1},
                            kSeed);
  for (int64_t h = 0; h < 3; ++h) {
    Matrix w_q(kWords, 1), w_k(kWords, 1);
    for (int64_t i = 0; i < kWords; ++i) {
      const double p = IdealRows()[h][i];
      w_q(i, 0) = 1;
      w_k(i, 0) = p > 0 ? std::log(p) : -60;
    }
    SetColumns(module.parameters().w_q, h, w_q);
    SetColumns(module.parameters().w_k, h, w_k);
  }
  Matrix words(kWords, kWords);
  for (int64_t i = 0; i < kWords; ++i) words(i, i) = 1;
  const Tensor x = AsSequence(words);
  std::vector<Row> rows;
  for (int64_t h = 0; h < 3; ++h) {
    const Matrix a = FromTensor(module.Weights(context, h, {.x = x.view()}));
    rows.emplace_back(&a.values[2 * kWords], &a.values[3 * kWords]);  // "sat"
  }
  return rows;
}

// How much better than the mean the best of many single rows is: the mean
// moved towards random rows by random steps, and rows drawn afresh.
double BestGain(const Row& mean) {
  constexpr int kTries = 20000;
  Rng rng(kSeed);
  double best = -1;
  for (int i = 0; i < kTries; ++i) {
    Row logits(kWords);
    for (double& value : logits) value = 2 * rng.Normal();
    Row row = Softmax(logits);
    const double step = i % 2 == 0 ? 1 : std::pow(10, -4 * rng.Uniform());
    for (size_t j = 0; j < row.size(); ++j) {
      row[j] = mean[j] + step * (row[j] - mean[j]);
    }
    best = Worst(best, MeanKl(mean) - MeanKl(row));
  }
  return best;
}

StudyResult Run(Context& context, const StudyRequest& /*request*/) {
  StudyResult result;
  result.seeds = {kSeed};
  const std::vector<Row>& ideal = IdealRows();
  const Row mean = Mean(ideal);
  const std::vector<Row> heads = ThreeHeads(context);
  const double kl[] = {.350, .636, .461}, js[] = {.108, .174, .131};
  const double entropy[] = {.50, 1.37, .61};
  for (int i = 0; i < 3; ++i) {
    result.Near(fmt::format("KL({} ‖ mean), nats", kNames[i]),
                KlDivergence(ideal[i], mean), kl[i], 5e-4);
  }
  result.Near("one head: mean KL", MeanKl(mean), .482, 5e-4);
  result.AtMost("best of 20000 other single rows: gain over the mean",
                BestGain(mean), 0);
  double worst = 0;
  for (int i = 0; i < 3; ++i) {
    worst = Worst(worst, std::abs(KlDivergence(ideal[i], heads[i])));
  }
  result.AtMost("three heads: largest KL to the ideal row", worst, 1e-5);
  for (int i = 0; i < 3; ++i) {
    result.Near(fmt::format("JS({}, mean), nats", kNames[i]),
                JensenShannon(ideal[i], mean), js[i], 6e-4);
  }
  for (int i = 0; i < 3; ++i) {
    result.Near(fmt::format("entropy of {}", kNames[i]), Entropy(ideal[i]),
                entropy[i], 6e-3);
  }
  result.Near("entropy of the mean", Entropy(mean), 1.31, 6e-3);

  HeatMap map{"Where \"sat\" should look, and the one row that must do for all",
              {"syntax", "position", "meaning", "mean (one head)"},
              {"The", "cat", "sat", "on", "the", "mat"},
              {}};
  for (const Row& row : ideal) {
    map.values.insert(map.values.end(), row.begin(), row.end());
  }
  map.values.insert(map.values.end(), mean.begin(), mean.end());
  result.pictures.push_back(std::move(map));
  result.remark =
      "The mean is [.100, .467, .067, .067, 0, .300]. It is not muddier than "
      "each row: position alone has the higher entropy.";
  return result;
}

}  // namespace
}  // namespace averaging_study

const Study kAveragingStudy = {
    .name = "averaging",
    .claim =
        "One head must average what several relations want of it; several "
        "heads need not.",
    .expectation =
        "KL to the mean .350, .636, .461 nats, mean .482, and no "
        "single row is better; three heads 0",
    .kind = StudyKind::kLaw,
    .run = averaging_study::Run};

}  // namespace headwise
