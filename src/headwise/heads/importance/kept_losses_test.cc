// A ranking that was stopped goes on where it stood, to the same numbers.
#include "headwise/heads/importance/kept_losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stop_token>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/heads/importance/test_models.h"

namespace headwise::kept_losses_test {
namespace {

using KeptLossesTest = ScratchFolderTest;

RankOptions Options() {
  RankOptions options;
  options.criteria = {Criterion::kAblationZero, Criterion::kAblationMean,
                      Criterion::kGradient};
  options.pairs = true;
  options.self_repair = true;
  options.replicates = 100;
  options.batch_tokens = 40;
  return options;
}

TEST_F(KeptLossesTest, AStoppedRankingGoesOnToTheSameNumbers) {
  Context context({2, ""});
  const auto model = GoldenModel("llama");
  const std::vector<TextExample> examples = RandomExamples(7, 12, 64, 3);
  int64_t calls = 0;
  RankOptions options = Options();
  options.progress = [&](const Progress&) { ++calls; };
  const std::string whole =
      ToJson(RankHeads(context, *model, examples, options)).dump();
  const int64_t all_calls = calls;
  const LossesKey key = {"m", TextKey(examples), SettingsKey(options)};
  // Stopped at every eighth step, each time from the file of the last.
  KeptLosses(key).Save(folder_ / "kept");
  bool finished = false;
  int64_t runs = 0, most_calls = 0;
  for (; !finished && runs < 100; ++runs) {
    KeptLosses kept = KeptLosses::Load(folder_ / "kept");
    EXPECT_EQ(kept.key(), key);
    std::stop_source stop;
    calls = 0;
    options.kept = &kept;
    options.stop = stop.get_token();
    options.progress = [&](const Progress&) {
      if (++calls == 8) stop.request_stop();
    };
    try {
      EXPECT_EQ(ToJson(RankHeads(context, *model, examples, options)).dump(),
                whole);
      finished = true;
      most_calls = calls;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kCancelled);
      kept.Save(folder_ / "kept");
    }
  }
  EXPECT_TRUE(finished);
  EXPECT_GT(runs, 2);
  EXPECT_LT(most_calls, all_calls);
}

TEST_F(KeptLossesTest, TextsAreToldApart) {
  std::vector<TextExample> examples = RandomExamples(3, 8, 64, 1);
  const std::string key = TextKey(examples);
  examples[2].ids.back() ^= 1;
  EXPECT_NE(TextKey(examples), key);
}

TEST_F(KeptLossesTest, RefusesOtherFiles) {
  WriteSafetensors(folder_ / "other", {}, {{"format", "x"}});
  EXPECT_THROW(KeptLosses::Load(folder_ / "other"), Error);
  const Tensor wrong(DType::kF32, {2, 2});
  WriteSafetensors(folder_ / "wrong", {{"stage", wrong.view()}},
                   {{"format", "headwise.losses/1"},
                    {"model", ""},
                    {"text", ""},
                    {"settings", ""}});
  EXPECT_THROW(KeptLosses::Load(folder_ / "wrong"), Error);
}

}  // namespace
}  // namespace headwise::kept_losses_test
