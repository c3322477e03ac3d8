// Observing heads in training: the series are the metrics they are named for.
#include "headwise/heads/importance/head_life.h"

#include <gtest/gtest.h>

#include <cmath>

#include "headwise/base/atomic_file.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/model/checkpoint.h"

namespace headwise::head_life_test {
namespace {

const std::filesystem::path kAssets = HEADWISE_ASSETS;

using HeadLifeFile = ScratchFolderTest;

TEST(HeadLife, SeesThePlantedHeads) {
  const auto model = OpenModel(kAssets / "planted");
  const auto tokenizer = Tokenizer::Load(kAssets / "planted");
  const WindowCutter cutter(*tokenizer, model->config(), {.context = 128});
  Context context({1, ""});
  const LifeObserver observer(
      context, *tokenizer, model->config(),
      ReadWindows({(kAssets / "text").string()}, cutter, 512));
  const LifeMoment moment = observer.Observe(*model, 7);
  EXPECT_EQ(moment.step, 7);
  double previous = 0, induction = 0;
  for (size_t h = 0; h < moment.heads.size(); ++h) {
    previous = std::max(previous, moment.values.at("previous")[h]);
    induction = std::max(induction, moment.values.at("induction")[h]);
    EXPECT_GE(moment.values.at("entropy")[h], 0);
    EXPECT_LE(moment.values.at("entropy")[h], 1.0001);
    EXPECT_GE(moment.values.at("importance")[h], 0);
  }
  EXPECT_GT(previous, .5);
  EXPECT_GT(induction, .4);
}

TEST_F(HeadLifeFile, IsReadUpToAStep) {
  const auto file = folder_ / "heads.jsonl";
  EXPECT_TRUE(ReadLife(file, 100).empty());
  std::vector<LifeMoment> life;
  for (const int64_t step : {10, 20, 30}) {
    LifeMoment moment;
    moment.step = step;
    moment.heads = {"0.0", "cross:0.0"};
    for (const char* series : kLifeSeries) {
      moment.values[series] = {0.5, NAN};
    }
    life.push_back(moment);
  }
  WriteLife(file, life);
  const std::vector<LifeMoment> read = ReadLife(file, 20);
  ASSERT_EQ(read.size(), 2);
  EXPECT_EQ(read[1].step, 20);
  EXPECT_EQ(read[1].heads, life[1].heads);
  EXPECT_EQ(read[1].values.at("entropy")[0], 0.5);
  EXPECT_TRUE(std::isnan(read[1].values.at("importance")[1]));
  WriteFileAtomically(file, "{\"step\": 1}\n");
  EXPECT_THROW(ReadLife(file, 20), Error);
  life[1].values["entropy"].pop_back();
  WriteLife(file, life);
  EXPECT_THROW(ReadLife(file, 20), Error) << "one value for two heads";
}

}  // namespace
}  // namespace headwise::head_life_test
