// Gradients of gates against finite differences of the loss.
#include "headwise/heads/importance/gradient.h"

#include <gtest/gtest.h>

#include <cmath>

#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/test_models.h"
#include "headwise/heads/importance/variants.h"
#include "headwise/nn/gated_sites.h"
#include "headwise/runtime/session.h"

namespace headwise::gradient_test {
namespace {

class EveryLoss : public testing::TestWithParam<const char*> {};

TEST_P(EveryLoss, EqualsFiniteDifferences) {
  Context context({2, ""});
  const auto model = GoldenModel(GetParam());
  ObjectiveOptions options;
  options.mask_token = 3;
  const Objective objective(*model, options);
  const ExampleBatch batch = objective.Prepare(RandomExamples(3, 9, 64, 31), 0);
  const std::vector<HeadRef> heads = AllHeads(*model);
  const auto gradients = GateGradients(context, *model, batch, heads);
  std::vector<int64_t> lengths, targets;
  for (int64_t b = 0; b < batch.size(); ++b) {
    lengths.push_back(batch.sequences.starts[b + 1] -
                      batch.sequences.starts[b]);
    if (batch.decoder_ids.empty()) continue;
    targets.push_back(batch.decoder_sequences.starts[b + 1] -
                      batch.decoder_sequences.starts[b]);
  }
  // Four points: the loss is far from straight in a gate.
  constexpr float kStep = 0.03f;
  constexpr float kAt[] = {1 - 2 * kStep, 1 - kStep, 1 + kStep, 1 + 2 * kStep};
  double largest = 0;
  for (size_t h = 0; h < heads.size(); ++h) {
    const AttentionLayer& layer =
        *AttentionLayers(*model, heads[h].kind)[heads[h].layer];
    std::vector<double> losses[4];
    for (size_t i = 0; i < 4; ++i) {
      GatedSites gates;
      gates.Open(layer.site().name, layer.config().heads)[heads[h].head] =
          kAt[i];
      const Tensor x = Forward(context, *model,
                               {.ids = batch.ids,
                                .lengths = lengths,
                                .decoder_ids = batch.decoder_ids,
                                .decoder_lengths = targets,
                                .hooks = &gates});
      losses[i] = objective.Losses(context, batch, x.view(), 1);
    }
    for (int64_t b = 0; b < batch.size(); ++b) {
      const double wanted =
          (8 * (losses[2][b] - losses[1][b]) - (losses[3][b] - losses[0][b])) /
          (12 * kStep * batch.weights[b]);
      EXPECT_NEAR(gradients[h][b].sum, wanted, 1e-4) << ToString(heads[h]);
      EXPECT_GE(gradients[h][b].absolute, std::abs(gradients[h][b].sum) - 1e-9);
      largest = std::max(largest, std::abs(wanted));
    }
  }
  EXPECT_GT(largest, 1e-3);
}

// Smooth ones: where a ReLU bends or a token changes its experts within a step,
// differences are no slope.
INSTANTIATE_TEST_SUITE_P(Goldens, EveryLoss,
                         testing::Values("gpt2", "gpt_neox", "llama", "bert",
                                         "marian", "gptj", "bloom", "gemma2",
                                         "smollm3", "albert"));

// The loss of finding each second half by its first and the other way round,
// by its definition; halves stand in turn.
double ContrastiveLoss(const Tensor& x, const std::vector<int64_t>& lengths) {
  const int64_t width = x.shape(1);
  std::vector<std::vector<double>> pooled;
  int64_t row = 0;
  for (const int64_t length : lengths) {
    std::vector<double> mean(width);
    for (int64_t t = 0; t < length; ++t, ++row) {
      for (int64_t i = 0; i < width; ++i) {
        mean[i] += x.As<float>()[row * width + i];
      }
    }
    pooled.push_back(std::move(mean));
  }
  const auto cosine = [&](size_t a, size_t b) {
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < width; ++i) {
      ab += pooled[a][i] * pooled[b][i];
      aa += pooled[a][i] * pooled[a][i];
      bb += pooled[b][i] * pooled[b][i];
    }
    return ab / std::sqrt(aa * bb) / 0.05;
  };
  double loss = 0;
  for (size_t a = 0; a < pooled.size(); a += 2) {
    double there = 0, back = 0;
    for (size_t b = 0; b < pooled.size(); b += 2) {
      there += std::exp(cosine(a, b + 1));
      back += std::exp(cosine(b, a + 1));
    }
    loss += 0.5 * (std::log(there) + std::log(back)) - cosine(a, a + 1);
  }
  return loss;
}

TEST(GradientCriteria, EncodersWithoutAHeadAreJudgedByTheirHalves) {
  Context context({2, ""});
  const auto model = GoldenModel("bert-headless");
  const Objective objective(*model);
  std::vector<TextExample> examples = RandomExamples(3, 10, 64, 33);
  for (TextExample& example : examples) {  // framed: [CLS] … [SEP]
    example.added.assign(example.ids.size(), 0);
    example.added.front() = example.added.back() = 1;
  }
  const ExampleBatch batch = objective.Prepare(examples, 0);
  const std::vector<HeadRef> heads = AllHeads(*model);
  const auto gradients = GateGradients(context, *model, batch, heads);
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
  for (const TextExample& example : examples) {
    const int64_t size = static_cast<int64_t>(example.ids.size());
    const int64_t middle = 1 + (size - 2) / 2;
    for (const auto& [from, to] :
         {std::pair<int64_t, int64_t>{1, middle}, {middle, size - 1}}) {
      ids.push_back(example.ids.front());
      ids.insert(ids.end(), example.ids.begin() + from,
                 example.ids.begin() + to);
      ids.push_back(example.ids.back());
      lengths.push_back(to - from + 2);
    }
  }
  constexpr float kStep = 0.01f;
  double largest = 0;
  for (size_t h = 0; h < heads.size(); ++h) {
    const AttentionLayer& layer =
        *AttentionLayers(*model, heads[h].kind)[heads[h].layer];
    const auto loss = [&](float at) {
      GatedSites gates;
      gates.Open(layer.site().name, layer.config().heads)[heads[h].head] = at;
      return ContrastiveLoss(
          Forward(context, *model,
                  {.ids = ids, .lengths = lengths, .hooks = &gates}),
          lengths);
    };
    const double wanted = (8 * (loss(1 + kStep) - loss(1 - kStep)) -
                           (loss(1 + 2 * kStep) - loss(1 - 2 * kStep))) /
                          (12 * kStep);
    double sum = 0;
    for (const GateGradient& one : gradients[h]) sum += one.sum;
    EXPECT_NEAR(sum, wanted, 1e-3 * std::max(1.0, std::abs(wanted)))
        << ToString(heads[h]);
    largest = std::max(largest, std::abs(wanted));
  }
  EXPECT_GT(largest, 1e-2);
}

TEST(GradientCriteria, ThreeFormsAndLayersOfNormOne) {
  Context context({2, ""});
  const auto model = GoldenModel("gpt2");
  RankOptions options;
  options.job.by = {Criterion::kGradient, Criterion::kGradientToken,
                    Criterion::kGradientBatch};
  options.replicates = 100;
  const std::vector<TextExample> examples = RandomExamples(6, 9, 64, 32);
  const Ranking ranking = RankHeads(context, *model, examples, options);
  EXPECT_FALSE(ranking.primary);
  for (size_t h = 0; h < 8; ++h) {
    const double example = ranking.criteria[0].heads[h].value;
    EXPECT_GT(ranking.criteria[1].heads[h].value, example);
    EXPECT_LE(ranking.criteria[2].heads[h].value, example);
  }
  options.job.per_layer = true;
  const Ranking normal = RankHeads(context, *model, examples, options);
  for (const size_t first : {0, 4}) {
    double squares = 0;
    for (size_t h = first; h < first + 4; ++h) {
      const double value = normal.criteria[0].heads[h].value;
      squares += value * value;
    }
    EXPECT_NEAR(squares, 1, 1e-9);
  }
}

}  // namespace
}  // namespace headwise::gradient_test
