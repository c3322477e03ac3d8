// Rankings and similarities by ranks, and those that were stopped, are those of
// one process, bit for bit.
#include "headwise/heads/importance/loss_table.h"

#include <gtest/gtest.h>

#include <stop_token>

#include "headwise/base/scratch_folder.h"
#include "headwise/dist/thread_group.h"
#include "headwise/error.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/heads/importance/test_models.h"
#include "headwise/heads/similarity/similarity.h"

namespace headwise::loss_table_test {
namespace {

RankOptions Everything() {
  RankOptions options;
  options.job.by = {Criterion::kAblationZero,     Criterion::kAblationMean,
                    Criterion::kAblationResample, Criterion::kActivation,
                    Criterion::kWeightsOv,        Criterion::kGradient,
                    Criterion::kGradientToken};
  options.objective.mask_token = 3;
  options.replicates = 50;
  options.batch_tokens = 20;
  options.job.pairs = true;
  options.job.self_repair = true;
  return options;
}

// The first rank's ranking in words.
std::string Ranked(int ranks, const Model& model, KeptWork* kept = nullptr) {
  std::string text;
  dist::RunRanks(ranks, [&](dist::Group& group) {
    Context context({1, ""});
    RankOptions options = Everything();
    options.pass.kept = kept;
    options.pass.group = &group;
    const Ranking ranking =
        RankHeads(context, model, RandomExamples(13, 8, 64, 6), options);
    if (group.is_first()) text = ToJson(ranking).dump();
    group.Leave();
  });
  return text;
}

TEST(SharedLosses, GiveTheSameRankingOnAnyNumberOfRanks) {
  for (const char* name : {"gpt2", "bert", "marian", "bert-headless"}) {
    const auto model = GoldenModel(name);
    const std::string one = Ranked(1, *model);
    for (const int ranks : {2, 4, 7}) {
      EXPECT_EQ(Ranked(ranks, *model), one) << name << ", " << ranks;
    }
  }
}

using KeptLosses = ScratchFolderTest;

// Stopped at every eighth step, each time from the file of the last, and ended
// by more ranks.
TEST_F(KeptLosses, AStoppedRankingGoesOnToTheSameNumbers) {
  Context context({1, ""});
  for (const char* name : {"llama", "bert-headless"}) {
    const auto model = GoldenModel(name);
    const std::string whole = Ranked(1, *model);
    const auto key = [] { return KeptKey{"m", "t", "s"}; };
    PartialWork keep = {.file = folder_ / name, .checkpoint_seconds = 0};
    for (int runs = 0; runs < 12; ++runs) {
      KeptWork kept("rank", keep, key);
      keep.resume = true;
      std::stop_source stop;
      int calls = 0;
      RankOptions options = Everything();
      options.pass.kept = &kept;
      options.pass.stop = stop.get_token();
      options.pass.progress = [&](std::string_view, double, double) {
        if (++calls == 8) stop.request_stop();
      };
      EXPECT_THROW(
          RankHeads(context, *model, RandomExamples(13, 8, 64, 6), options),
          Error);
      EXPECT_THROW(kept.ThrowInterrupted(), Error);
    }
    for (const int ranks : {1, 3}) {
      KeptWork kept("rank", keep, key);
      EXPECT_EQ(Ranked(ranks, *model, &kept), whole) << name;
    }
  }
}

TEST(FillTable, PutsPartsInTheirColumns) {
  TableWork work;
  work.stage = "table";
  work.rows = 2;
  work.ends = {2, 3};
  work.run = [](size_t part, LossTable& columns, const auto&) {
    for (const size_t row : MissingRows(columns)) {
      for (double& value : columns[row]) {
        value = static_cast<double>(10 * part + row);
      }
    }
  };
  EXPECT_EQ(FillTable({}, work), (LossTable{{0, 0, 10}, {1, 1, 11}}));
}

TEST(TextKey, TellsTextsApart) {
  std::vector<TextExample> examples = RandomExamples(3, 8, 64, 1);
  const std::string key = TextKey(examples);
  examples[2].ids.back() ^= 1;
  EXPECT_NE(TextKey(examples), key);
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
      PassOptions options;
      options.group = &group;
      const HeadSimilarity similarity =
          CompareHeads(context, *model, windows, {}, options);
      if (group.is_first()) text = ToJson(similarity).dump();
      group.Leave();
    });
    return text;
  };
  const std::string one = compared(1);
  for (const int ranks : {2, 3, 7}) EXPECT_EQ(compared(ranks), one) << ranks;
}

}  // namespace
}  // namespace headwise::loss_table_test
