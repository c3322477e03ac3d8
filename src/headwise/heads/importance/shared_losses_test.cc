// Rankings and similarities by ranks are those of one process, bit for bit.
#include "headwise/heads/importance/shared_losses.h"

#include <gtest/gtest.h>

#include <cmath>

#include "headwise/base/rng.h"
#include "headwise/dist/thread_group.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/heads/importance/test_models.h"
#include "headwise/heads/similarity/similarity.h"

namespace headwise::shared_losses_test {
namespace {

RankOptions Everything() {
  RankOptions options;
  options.criteria = {Criterion::kAblationZero,     Criterion::kAblationMean,
                      Criterion::kAblationResample, Criterion::kActivation,
                      Criterion::kWeightsOv,        Criterion::kGradient,
                      Criterion::kGradientToken};
  options.objective.mask_token = 3;
  options.replicates = 50;
  options.batch_tokens = 20;
  options.pairs = true;
  options.self_repair = true;
  return options;
}

// Rank 0's ranking in words; `kept` is what rank 0 has in the end.
std::string Ranked(int ranks, const Model& model, const KeptLosses& begun,
                   KeptLosses* kept = nullptr) {
  std::string text;
  dist::RunRanks(ranks, [&](dist::Group& group) {
    Context context({1, ""});
    KeptLosses losses = begun;
    RankOptions options = Everything();
    options.kept = &losses;
    options.group = &group;
    const Ranking ranking =
        RankHeads(context, model, RandomExamples(13, 8, 64, 6), options);
    if (group.is_first()) {
      text = ToJson(ranking).dump();
      if (kept != nullptr) *kept = losses;
    }
    group.Leave();
  });
  return text;
}

TEST(SharedLosses, GiveTheSameRankingOnAnyNumberOfRanks) {
  for (const char* name : {"gpt2", "bert", "marian", "bert-headless"}) {
    const auto model = GoldenModel(name);
    const std::string one = Ranked(1, *model, {});
    for (const int ranks : {2, 4, 7}) {
      EXPECT_EQ(Ranked(ranks, *model, {}), one) << name << ", " << ranks;
    }
  }
}

TEST(SharedLosses, GoOnOnAnotherNumberOfRanks) {
  const auto model = GoldenModel("gpt2");
  KeptLosses kept;
  const std::string one = Ranked(3, *model, {}, &kept);
  // Some of what is known is lost: whole sequences, and single heads.
  const std::string stage = "ablation-zero heads, layers";
  const size_t heads = AllHeads(*model).size();
  LossTable& table = kept.Stage(stage, heads + 2, 13);
  ASSERT_FALSE(std::isnan(table[0][0]));
  for (std::vector<double>& row : table) row[4] = row[5] = NAN;
  for (double& loss : table[1]) loss = NAN;
  EXPECT_EQ(Ranked(2, *model, kept), one);
  EXPECT_EQ(Ranked(1, *model, kept), one);
}

TEST(SharedLosses, GiveTheSameSimilarityOnAnyNumberOfRanks) {
  const auto model = GoldenModel("gpt2");
  std::vector<TokenWindow> windows;
  for (const TextExample& example : RandomExamples(5, 20, 64, 6)) {
    windows.push_back(WindowOfIds(example.ids));
  }
  const auto compared = [&](int ranks) {
    std::string text;
    dist::RunRanks(ranks, [&](dist::Group& group) {
      Context context({1, ""});
      SimilarityOptions options;
      options.group = &group;
      const Similarity similarity =
          CompareHeads(context, *model, windows, options);
      if (group.is_first()) text = ToJson(similarity).dump();
      group.Leave();
    });
    return text;
  };
  const std::string one = compared(1);
  for (const int ranks : {2, 3, 7}) EXPECT_EQ(compared(ranks), one) << ranks;
}

}  // namespace
}  // namespace headwise::shared_losses_test
