// Every analysis of a model that has lost all heads of a layer.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/heads/composition/composition.h"
#include "headwise/heads/importance/patching.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/heads/similarity/similarity.h"
#include "headwise/model/family.h"
#include "headwise/model/parameters.h"
#include "headwise/runtime/session.h"

namespace headwise::headless_layer_test {
namespace {

constexpr size_t kHeads = 4;

class HeadlessLayer : public testing::Test {
 protected:
  HeadlessLayer() {
    const ModelConfig config = ReadConfig({{"model_type", "gpt2"},
                                           {"n_embd", 16},
                                           {"n_head", 4},
                                           {"n_layer", 3},
                                           {"vocab_size", 20},
                                           {"n_positions", 32},
                                           {"heads_per_layer", {2, 0, 2}}},
                                          "config.json");
    const auto store = ParameterStore::Fresh(config, {.deviation = 0.3f});
    model_ = BuildModel(config, store);
    for (auto& [name, entry] : store->entries()) {
      if (!name.ends_with("c_proj.bias")) continue;
      std::fill_n(entry.value.As<float>(), entry.value.size(), 0.1f);
    }
    Rng rng(1);
    for (int w = 0; w < 6; ++w) {
      std::vector<int32_t> ids(24);
      for (int32_t& id : ids) id = static_cast<int32_t>(rng.Below(20));
      windows_.push_back(WindowOfIds(std::move(ids)));
    }
  }

  Context context_{{2, ""}};
  std::unique_ptr<Model> model_;
  std::vector<TokenWindow> windows_;
};

TEST_F(HeadlessLayer, IsProfiled) {
  Profiler profiler(context_, *model_, nullptr, "headless", "hash", {});
  profiler.AddProbes();
  profiler.AddWindows(windows_);
  const Profile profile = profiler.Take();
  ASSERT_EQ(profile.heads.size(), kHeads);
  for (size_t h = 0; h < kHeads; ++h) {
    EXPECT_EQ(profile.Get("entropy", h).sequences, 6);
    EXPECT_GT(profile.Get("repeats.induction", h).count, 0);
  }
}

TEST_F(HeadlessLayer, IsCompared) {
  const HeadSimilarity similarity = CompareHeads(context_, *model_, windows_);
  EXPECT_EQ(similarity.jsd.shape(0), static_cast<int64_t>(kHeads));
  Composition composition = MeasureComposition(context_, *model_);
  MeasureEffects(context_, *model_, windows_, {}, composition);
  EXPECT_EQ(composition.edges.size(), 2 * 2 * 3);
  for (const HeadEdge& edge : composition.edges) EXPECT_GT(edge.effect, 0);
}

TEST_F(HeadlessLayer, IsRanked) {
  std::vector<TextExample> examples;
  for (const TokenWindow& window : windows_) {
    examples.push_back({window.source.ids, {}, {}});
  }
  RankOptions options;
  options.job.by = {Criterion::kAblationMean, Criterion::kAblationResample,
                    Criterion::kGradient, Criterion::kActivation,
                    Criterion::kWeightsOv};
  options.job.pairs = options.job.self_repair = true;
  options.replicates = 100;
  const Ranking ranking = RankHeads(context_, *model_, examples, options);
  for (const CriterionResult& result : ranking.criteria) {
    ASSERT_EQ(result.heads.size(), kHeads);
    for (const Interval& head : result.heads) EXPECT_NE(head.value, 0);
  }
  EXPECT_EQ(ranking.layers.size(), 2);
  EXPECT_EQ(ranking.pairs.size(), 6);
}

TEST_F(HeadlessLayer, IsPatched) {
  PatchCase one;
  one.prompt = windows_[0].source.ids;
  one.counterfactual = windows_[1].source.ids;
  one.answer = 3;
  one.other = 5;
  const std::vector<PatchCase> cases = {one};
  const LogitParts parts = AttributeLogits(context_, *model_, cases)[0];
  EXPECT_EQ(parts.heads.size(), kHeads);
  EXPECT_EQ(parts.biases.size(), 3);
  const int64_t lengths[] = {24};
  const Tensor x =
      Forward(context_, *model_, {.ids = one.prompt, .lengths = lengths});
  Tensor logits(DType::kF32, {24, 20});
  model_->Logits(context_, x.view(), logits.view());
  const float* last = logits.As<float>() + 23 * 20;
  EXPECT_NEAR(parts.Sum(), last[3] - last[5], 1e-4);
  EXPECT_EQ(Patch(context_, *model_, cases, {}).patched.size(), kHeads);
}

}  // namespace
}  // namespace headwise::headless_layer_test
