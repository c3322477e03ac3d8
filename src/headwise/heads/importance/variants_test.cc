// Closing heads by gates against zeroed weights; shared prefixes against runs
// of their own.
#include "headwise/heads/importance/variants.h"

#include <gtest/gtest.h>

#include <cmath>

#include "headwise/error.h"
#include "headwise/heads/importance/test_models.h"
#include "headwise/runtime/gates.h"
#include "headwise/runtime/session.h"

namespace headwise::variants_test {
namespace {

ObjectiveOptions TestOptions() {
  ObjectiveOptions options;
  options.mask_token = 3;
  return options;
}

// Losses of every variant, [variants][sequences].
std::vector<std::vector<double>> LossesOf(
    Context& context, const Model& model, ExampleBatch& batch,
    const std::vector<HeadSet>& variants, int64_t most_rows,
    const HeadOutputs* replacement = nullptr) {
  const Objective objective(model, TestOptions());
  objective.SetReference(context, batch,
                         RunClean(context, model, batch).final.view());
  std::vector<std::vector<double>> losses(variants.size());
  VariantJob job;
  job.variants = variants;
  job.replacement = replacement;
  job.most_rows = most_rows;
  job.done = [&](std::span<const int64_t> indices, ConstTensorView x) {
    const std::vector<double> sums = objective.Losses(
        context, batch, x, static_cast<int64_t>(indices.size()));
    for (size_t i = 0; i < indices.size(); ++i) {
      losses[indices[i]].assign(sums.begin() + i * batch.size(),
                                sums.begin() + (i + 1) * batch.size());
    }
  };
  RunVariants(context, model, batch, job);
  return losses;
}

// The same by one whole forward pass a variant.
std::vector<double> LossesOfOne(Context& context, const Model& model,
                                const ExampleBatch& batch,
                                const HeadSet& closed) {
  ClosedHeads gates(model, closed);
  std::vector<int64_t> lengths, decoder_lengths;
  for (int64_t b = 0; b < batch.size(); ++b) {
    const auto& source = batch.sequences.starts;
    lengths.push_back(source[b + 1] - source[b]);
    if (batch.decoder_ids.empty()) continue;
    const auto& target = batch.decoder_sequences.starts;
    decoder_lengths.push_back(target[b + 1] - target[b]);
  }
  const Tensor x = Forward(context, model,
                           {.ids = batch.ids,
                            .lengths = lengths,
                            .decoder_ids = batch.decoder_ids,
                            .decoder_lengths = decoder_lengths,
                            .hooks = &gates});
  return Objective(model, TestOptions()).Losses(context, batch, x.view(), 1);
}

void ExpectNear(const std::vector<double>& a, const std::vector<double>& b,
                const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], 2e-5 * std::max(1.0, std::abs(b[i]))) << what;
  }
}

class EveryFamily : public testing::TestWithParam<const char*> {};

TEST_P(EveryFamily, SharedPrefixEqualsWholeRuns) {
  Context context({2, ""});
  const auto model = GoldenModel(GetParam());
  const Objective objective(*model, TestOptions());
  ExampleBatch batch = objective.Prepare(RandomExamples(3, 9, 64, 1), 0);
  std::vector<HeadSet> variants;
  for (const HeadRef& head : AllHeads(*model)) variants.push_back({head});
  const std::vector<HeadRef> all = AllHeads(*model);
  variants.push_back({all.front(), all.back()});
  variants.push_back(all);
  variants.push_back({});
  // Few rows, so that the heads of a layer run in several stacks.
  const auto losses = LossesOf(context, *model, batch, variants, 80);
  const std::vector<double> clean = LossesOfOne(context, *model, batch, {});
  double moved = 0;
  for (size_t v = 0; v < variants.size(); ++v) {
    const std::vector<double> whole =
        LossesOfOne(context, *model, batch, variants[v]);
    ExpectNear(losses[v], whole, std::to_string(v));
    if (variants[v].size() == 1) moved += std::abs(whole[0] - clean[0]);
  }
  EXPECT_GT(moved, 1e-3);
  ExpectNear(losses.back(), clean, "no head closed");
}

INSTANTIATE_TEST_SUITE_P(Goldens, EveryFamily,
                         testing::Values("gpt2", "llama", "qwen3", "bert",
                                         "bert-headless", "marian"));

TEST(Variants, ClosingAHeadEqualsZeroingItsRowsOfWo) {
  Context context({2, ""});
  const auto model = GoldenModel("llama");
  const Objective objective(*model);
  ExampleBatch batch = objective.Prepare(RandomExamples(4, 12, 64, 2), 0);
  std::vector<HeadSet> variants;
  for (const HeadRef& head : AllHeads(*model)) variants.push_back({head});
  const auto losses = LossesOf(context, *model, batch, variants, 4096);
  for (size_t v = 0; v < variants.size(); ++v) {
    const HeadRef head = variants[v][0];
    const auto zeroed = GoldenModel("llama", [&](WeightMap& weights) {
      Tensor& output = weights["model.layers." + std::to_string(head.layer) +
                               ".self_attn.o_proj.weight"];  // [d, H·E]
      const int64_t columns = output.shape(1), dim = 8;
      for (int64_t r = 0; r < output.shape(0); ++r) {
        for (int64_t c = head.head * dim; c < (head.head + 1) * dim; ++c) {
          output.As<float>()[r * columns + c] = 0;
        }
      }
    });
    ExpectNear(losses[v], LossesOfOne(context, *zeroed, batch, {}),
               ToString(head));
  }
}

// With a head's own output in its place nothing changes, and with the same
// constant in every row it is what W_O makes of that constant.
TEST(Variants, ReplacementsStandInForClosedHeads) {
  Context context({2, ""});
  for (const char* name : {"gpt2", "marian"}) {
    const auto model = GoldenModel(name);
    const Objective objective(*model);
    ExampleBatch batch = objective.Prepare(RandomExamples(3, 9, 64, 3), 0);
    const CleanRun clean = RunClean(context, *model, batch);
    std::vector<HeadSet> variants;
    for (const HeadRef& head : AllHeads(*model)) variants.push_back({head});
    const auto same =
        LossesOf(context, *model, batch, variants, 4096, &clean.outputs);
    const std::vector<double> untouched =
        LossesOfOne(context, *model, batch, {});
    for (const auto& losses : same) ExpectNear(losses, untouched, name);
    HeadOutputs zeros;
    for (const auto& [site, outputs] : clean.outputs) {
      zeros[site] =
          Tensor(DType::kF32, {1, outputs.shape(1), outputs.shape(2)});
    }
    const auto broadcast =
        LossesOf(context, *model, batch, variants, 4096, &zeros);
    const auto closed = LossesOf(context, *model, batch, variants, 4096);
    for (size_t v = 0; v < variants.size(); ++v) {
      ExpectNear(broadcast[v], closed[v], name);
    }
  }
}

TEST(Variants, StopEndsTheWork) {
  Context context({1, ""});
  const auto model = GoldenModel("gpt2");
  const ExampleBatch batch =
      Objective(*model).Prepare(RandomExamples(2, 6, 64, 4), 0);
  std::stop_source source;
  const std::vector<HeadSet> variants = {{{AttentionKind::kSelf, 0, 0}},
                                         {{AttentionKind::kSelf, 1, 0}}};
  VariantJob job;
  job.variants = variants;
  job.stop = source.get_token();
  int ran = 0;
  job.done = [&](auto, auto) {
    ++ran;
    source.request_stop();
  };
  EXPECT_THROW(RunVariants(context, *model, batch, job), Error);
  EXPECT_EQ(ran, 1);
}

TEST(Objective, MasksDependOnTheExampleNotOnTheBatch) {
  const auto model = GoldenModel("bert");
  const Objective objective(*model, TestOptions());
  const std::vector<TextExample> examples = RandomExamples(6, 20, 64, 5);
  const ExampleBatch whole = objective.Prepare(examples, 0);
  const ExampleBatch part =
      objective.Prepare(std::span(examples).subspan(4, 2), 4);
  const int32_t from = whole.sequences.starts[4];
  for (size_t t = 0; t < part.ids.size(); ++t) {
    EXPECT_EQ(part.ids[t], whole.ids[from + t]);
    EXPECT_EQ(part.targets[t], whole.targets[from + t]);
  }
  for (const double weight : whole.weights) EXPECT_GE(weight, 1);
}

TEST(Objective, NamesTheLossAndRefusesShortTexts) {
  EXPECT_EQ(LossOf(*GoldenModel("gpt2")), LossKind::kNextToken);
  EXPECT_EQ(LossOf(*GoldenModel("roberta")), LossKind::kMaskedToken);
  EXPECT_EQ(LossOf(*GoldenModel("marian")), LossKind::kTargetTokens);
  EXPECT_EQ(LossOf(*GoldenModel("bert-headless")), LossKind::kEmbeddingCosine);
  const auto bert = GoldenModel("bert");
  EXPECT_THROW(Objective{*bert}, Error);
  const auto gpt2 = GoldenModel("gpt2");
  try {
    Objective(*gpt2).Prepare(std::vector<TextExample>{{{5}, {}, {}}}, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().expected, "at least two tokens");
    EXPECT_EQ(error.parts().found, "1");
  }
}

}  // namespace
}  // namespace headwise::variants_test
