// What studies read off trained models from disk.
#include "headwise/study/support/shipped.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "headwise/error.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/study/study.h"

namespace headwise::shipped_test {
namespace {

std::filesystem::path AssetPath(const char* name) {
  return std::filesystem::path(HEADWISE_SOURCE) / "assets" / name;
}

TrainedReader Shipped() {
  return TrainedReader(
      AssetPath("novels"),
      {AssetPath("text/the-lamp-at-sorrel-point.txt").string()});
}

TEST(TrainedReaderTest, ReadsItsTextInLinesAsItWasTrained) {
  Context context({.threads = 2, .implementations = ""});
  const TrainedReader reader = Shipped();
  std::vector<MadeSequence> text = reader.Text();
  ASSERT_GT(text.size(), 8u);
  text.resize(2);
  double sum = 0;
  for (const double loss : SequenceLosses(context, reader.model(), text)) {
    sum += loss / 2;
  }
  // 4.0 on held-out novels; the same story without line ends costs 6.
  EXPECT_LT(sum, 4.8);
}

TEST(TrainedReaderTest, RepeatsCanBeToldByOneTokenOrOnlyByTwo) {
  const TrainedReader reader = Shipped();
  for (const RepeatTask task :
       {RepeatTask::kOneToken, RepeatTask::kTwoTokens}) {
    for (const MadeSequence& made : reader.Repeats(task, 20)) {
      std::map<int32_t, std::set<int32_t>> successors;
      for (size_t i = 1; i < made.ids.size() / 2; ++i) {
        successors[made.ids[i]].insert(made.ids[i + 1]);
      }
      size_t told = 0;
      for (size_t i = 0; i < made.ids.size(); ++i) {
        if (made.targets[i] == kIgnoreTarget) continue;
        ++told;
        // Two tokens that stood together before, and what came then.
        const auto seen = std::search(
            made.ids.begin(), made.ids.begin() + static_cast<int64_t>(i) - 1,
            made.ids.begin() + static_cast<int64_t>(i) - 1,
            made.ids.begin() + static_cast<int64_t>(i) + 1);
        if (task == RepeatTask::kTwoTokens) {
          EXPECT_EQ(*(seen + 2), made.targets[i]);
        } else {
          EXPECT_EQ(*successors[made.ids[i]].begin(), made.targets[i]);
        }
      }
      EXPECT_GE(told, 22u);
      const auto ambiguous = std::count_if(
          successors.begin(), successors.end(),
          [](const auto& entry) { return entry.second.size() > 1; });
      EXPECT_GE(ambiguous, task == RepeatTask::kTwoTokens ? 10 : 0);
      EXPECT_LE(ambiguous, task == RepeatTask::kTwoTokens ? 12 : 0);
    }
  }
}

TEST(TrainedReaderTest, TheShippedModelCompletesRepeatsInItsLastLayers) {
  Context context({.threads = 2, .implementations = ""});
  const TrainedReader reader = Shipped();
  const std::vector<MadeSequence> repeats =
      reader.Repeats(RepeatTask::kOneToken, 4);
  EXPECT_GT(ShareRight(context, reader.model(), repeats), 0.8);
  EXPECT_LT(ShareRight(context, reader.model(), repeats, 2), 0.1);
}

// A few steps of training, a page of text: what the shipped models show is
// told beside it, and that they are absent where they are.
class ShippedStudyTest : public testing::TestWithParam<const Study*> {};

TEST_P(ShippedStudyTest, LooksAtTheShippedModelsToo) {
  const auto page = std::filesystem::path(testing::TempDir()) /
                    (std::to_string(::getpid()) + "_shipped_page.txt");
  std::string text;
  text.resize(1200);
  std::ifstream(AssetPath("text/the-lamp-at-sorrel-point.txt"))
      .read(text.data(), std::ssize(text));
  std::ofstream(page) << text;
  Context context({.threads = 2, .implementations = ""});
  StudyRequest request;
  request.effort = 0.005;
  const StudyResult alone = RunStudy(*GetParam(), context, request);
  EXPECT_NE(alone.remark.find("not here"), std::string::npos);
  request.model = AssetPath("novels");
  request.twin = AssetPath("novels-one-head");
  request.reading = {page.string()};
  const StudyResult both = RunStudy(*GetParam(), context, request);
  EXPECT_GT(both.figures.size(), alone.figures.size() + 3);
  EXPECT_GT(both.pictures.size(), alone.pictures.size());
  EXPECT_EQ(StudyHash(*GetParam(), both), StudyHash(*GetParam(), alone));
  for (size_t i = alone.figures.size(); i < both.figures.size(); ++i) {
    EXPECT_TRUE(both.figures[i].name.starts_with("shipped: "));
    EXPECT_TRUE(both.figures[i].information) << both.figures[i].name;
    EXPECT_TRUE(std::isfinite(both.figures[i].value)) << both.figures[i].name;
  }
}
INSTANTIATE_TEST_SUITE_P(All, ShippedStudyTest,
                         testing::Values(&kOneVsManyStudy, &kLayersStudy,
                                         &kSpecialiseStudy),
                         [](const auto& study) {
                           std::string name = study.param->name;
                           std::erase(name, '-');
                           return name;
                         });

TEST(TrainedReaderTest, RefusesWhatIsNotThere) {
  EXPECT_THROW(TrainedReader("nowhere", {}), Error);
}

}  // namespace
}  // namespace headwise::shipped_test
