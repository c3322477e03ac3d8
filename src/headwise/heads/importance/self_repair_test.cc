// Self-repair against its definition, head by head with vectors of the whole
// width; and what is not repair.
#include "headwise/heads/importance/self_repair.h"

#include <gtest/gtest.h>

#include <cmath>

#include "headwise/heads/importance/corpus_runs.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/test_models.h"
#include "headwise/nn/head_weights.h"
#include "headwise/ops/loss/loss.h"

namespace headwise::self_repair_test {
namespace {

// What one head adds to logit[target] − mean logit in the rows of a batch,
// summed, by the definition: z·W_O through the clean run's final RMS norm.
class Oracle {
 public:
  Oracle(Context& context, const Model& model, const ExampleBatch& batch)
      : context_(context),
        model_(model),
        batch_(batch),
        clean_(RunClean(context, model, batch)),
        vocabulary_(ToF32(context, model.head().vocabulary.weight())) {}

  double Effect(const HeadRef& head, ConstTensorView outputs) const {
    const HeadWeights w = WeightsOfHead(
        context_, *AttentionLayers(model_, head.kind)[head.layer], head.head);
    const int64_t width = model_.config().width, dim = w.o.shape(0);
    const Tensor factors = model_.stack().final_norm.Gain(context_);
    const float* gain = factors.As<float>();
    double sum = 0;
    for (size_t t = 0; t < batch_.targets.size(); ++t) {
      if (batch_.targets[t] == kIgnoreTarget) continue;
      const float* z = outputs.As<float>() +
                       static_cast<int64_t>(t) * outputs.stride[0] +
                       head.head * dim;
      const double scale = Scale(static_cast<int64_t>(t));
      for (int64_t j = 0; j < width; ++j) {
        double written = 0;
        for (int64_t i = 0; i < dim; ++i) {
          written += double{z[i]} * w.o.As<float>()[i * width + j];
        }
        sum += written * scale * gain[j] * AboveMean(batch_.targets[t], j);
      }
    }
    return sum;
  }
  const CleanRun& clean() const { return clean_; }

 private:
  double Scale(int64_t t) const {
    const int64_t width = model_.config().width;
    double squares = 0;
    for (int64_t j = 0; j < width; ++j) {
      squares += std::pow(clean_.stream.As<float>()[t * width + j], 2);
    }
    return 1 / std::sqrt(squares / static_cast<double>(width) +
                         model_.stack().final_norm.epsilon());
  }
  double AboveMean(int32_t target, int64_t j) const {
    const int64_t rows = vocabulary_.shape(0), width = vocabulary_.shape(1);
    double mean = 0;
    for (int64_t r = 0; r < rows; ++r) {
      mean += vocabulary_.As<float>()[r * width + j];
    }
    return vocabulary_.As<float>()[target * width + j] -
           mean / static_cast<double>(rows);
  }

  Context& context_;
  const Model& model_;
  const ExampleBatch& batch_;
  CleanRun clean_;
  Tensor vocabulary_;
};

TEST(RepairMeter, FollowsTheDefinition) {
  Context context({2, ""});
  const auto model = GoldenModel("llama");
  const ExampleBatch batch =
      Objective(*model).Prepare(RandomExamples(1, 9, 64, 4), 0);
  const std::vector<HeadRef> heads = AllHeads(*model);
  const RepairMeter meter(context, *model, heads);
  ASSERT_EQ(meter.heads().size(), heads.size());
  const DirectEffects effects = meter.Measure(batch, nullptr, {});
  const Oracle oracle(context, *model, batch);
  for (size_t h = 0; h < heads.size(); ++h) {
    HeadOutputs closed;
    const std::vector<HeadSet> variant = {{heads[h]}};
    VariantJob job;
    job.variants = variant;
    job.done = [](std::span<const int64_t>, ConstTensorView) {};
    job.outputs = [&](std::span<const int64_t>, std::string_view site,
                      ConstTensorView value) {
      Tensor copy(DType::kF32,
                  {value.shape[0], value.shape[1], value.shape[2]});
      std::copy_n(value.As<float>(), copy.size(), copy.As<float>());
      closed[std::string(site)] = std::move(copy);
    };
    RunVariants(context, *model, batch, job);
    double lost = 0, taken = 0;
    for (const HeadRef& other : heads) {
      const std::string& site =
          AttentionLayers(*model, other.kind)[other.layer]->site().name;
      const double before =
          oracle.Effect(other, oracle.clean().outputs.at(site).view());
      if (other == heads[h]) lost = before;
      if (other.layer > heads[h].layer) {
        taken += oracle.Effect(other, closed.at(site).view()) - before;
      }
    }
    EXPECT_NEAR(effects.lost[h][0], lost, 2e-4) << ToString(heads[h]);
    EXPECT_NEAR(effects.taken[h][0], taken, 2e-4) << ToString(heads[h]);
    if (heads[h].layer == 0) {
      EXPECT_GT(std::abs(taken), 1e-3);
    }
  }
}

// Later heads that write nothing take nothing over, whatever flows through the
// feed-forward halves and the final norm.
TEST(RepairMeter, WhatFlowsThroughLaterLayersIsNotRepair) {
  Context context({2, ""});
  const auto model = GoldenModel("llama", [](WeightMap& weights) {
    Tensor& v = weights["model.layers.1.self_attn.v_proj.weight"];
    std::fill_n(v.As<float>(), v.size(), 0.0f);
  });
  RankOptions options;
  options.job.by = {Criterion::kAblationZero};
  options.job.self_repair = true;
  options.replicates = 200;
  // One text again and again: every effect is certain.
  const std::vector<TextExample> examples(6, RandomExamples(1, 14, 64, 9)[0]);
  const Ranking ranking = RankHeads(context, *model, examples, options);
  ASSERT_EQ(ranking.self_repair.size(), 8u);
  int64_t given = 0;
  for (size_t h = 0; h < 4; ++h) {
    if (!ranking.self_repair[h]) continue;
    ++given;
    EXPECT_EQ(ranking.self_repair[h]->value, 0);
  }
  EXPECT_GT(given, 0);
  // A head that writes nothing has no direct effect to speak of.
  for (size_t h = 4; h < 8; ++h) EXPECT_FALSE(ranking.self_repair[h]);
}

TEST(RepairMeter, HeadsWithoutADirectPathHaveNone) {
  Context context({1, ""});
  const auto model = GoldenModel("bert");
  EXPECT_TRUE(RepairMeter(context, *model, AllHeads(*model)).heads().empty());
}

}  // namespace
}  // namespace headwise::self_repair_test
