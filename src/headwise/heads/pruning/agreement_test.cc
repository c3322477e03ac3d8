#include "headwise/heads/pruning/agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "headwise/heads/importance/test_models.h"
#include "headwise/heads/importance/variants.h"
#include "headwise/model/checkpoint.h"
#include "headwise/ops/copy/copy.h"

namespace headwise::agreement_test {
namespace {

std::vector<double> Shares(const float* logits, int64_t classes) {
  const float largest = *std::max_element(logits, logits + classes);
  std::vector<double> shares(classes);
  double sum = 0;
  for (int64_t i = 0; i < classes; ++i) {
    sum += shares[i] = std::exp(static_cast<double>(logits[i]) - largest);
  }
  for (double& share : shares) share /= sum;
  return shares;
}

// By the definition, over logits of two models of one shape.
TEST(Agreement, IsTheDivergenceOfThePredictions) {
  Context context({.threads = 1, .implementations = ""});
  const auto model =
      OpenModel(std::filesystem::path(HEADWISE_GOLDENS) / "gpt2");
  const auto examples = RandomExamples(2, 6, model->config().vocabulary, 3);
  const Objective objective(*model);
  const ExampleBatch batch = objective.Prepare(examples, 0);
  const CleanRun run = RunClean(context, *model, batch);
  // Other states: those of a model that lost something.
  Tensor other(DType::kF32, {run.final.shape(0), run.final.shape(1)});
  for (int64_t i = 0; i < other.size(); ++i) {
    other.As<float>()[i] = run.final.As<float>()[i] * (i % 3 == 0 ? 0.5f : 1);
  }
  AgreementSums sums, same;
  AddAgreement(context, batch, {*model, run.final.view()},
               {*model, other.view()}, sums);
  AddAgreement(context, batch, {*model, run.final.view()},
               {*model, run.final.view()}, same);
  const int64_t rows = other.shape(0), classes = model->config().vocabulary;
  Tensor a(DType::kF32, {rows, classes}), b(DType::kF32, {rows, classes});
  model->Logits(context, run.final.view(), a.view());
  model->Logits(context, other.view(), b.view());
  ASSERT_EQ(sums.divergence.size(), 2);
  for (int64_t s = 0; s < 2; ++s) {
    double divergence = 0, alike = 0;
    const int64_t begin = batch.sequences.starts[s];
    const int64_t end = batch.sequences.starts[s + 1] - 1;
    for (int64_t row = begin; row < end; ++row) {
      const auto p = Shares(a.As<float>() + row * classes, classes);
      const auto q = Shares(b.As<float>() + row * classes, classes);
      for (int64_t i = 0; i < classes; ++i) {
        divergence += p[i] * std::log(p[i] / q[i]);
      }
      alike += std::ranges::max_element(p) - p.begin() ==
               std::ranges::max_element(q) - q.begin();
    }
    EXPECT_NEAR(sums.divergence[s], divergence, 1e-6);
    EXPECT_GT(divergence, 1e-6);
    EXPECT_EQ(sums.same_token[s], alike);
    EXPECT_NEAR(same.divergence[s], 0, 1e-9);
    EXPECT_EQ(same.same_token[s], end - begin);
  }
}

TEST(Agreement, ComparesNeighbours) {
  const TextVectors whole = {{1, 0}, {0.9, 0.1}, {0, 1}};
  // The second has moved to the third.
  const TextVectors other = {{2, 0}, {0.1, 0.9}, {0, 3}};
  const VectorAgreement agreement = CompareVectors(whole, other);
  EXPECT_NEAR(agreement.cosine[0], 1, 1e-12);
  EXPECT_NEAR(agreement.cosine[2], 1, 1e-12);
  EXPECT_NEAR(agreement.cosine[1], 0.18 / 0.82, 1e-12);
  EXPECT_EQ(agreement.same_neighbour, (std::vector<double>{1, 0, 1}));
}

}  // namespace
}  // namespace headwise::agreement_test
