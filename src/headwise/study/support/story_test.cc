// The grammar of stories, and that every study of language runs at a small
// effort, gives figures, tables and pictures, and stops when told to.
#include "headwise/study/support/story.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/study/study.h"
#include "headwise/study/support/translation.h"

namespace headwise::story_test {
namespace {

TEST(StoryTest, KeepsPairsAndAgreement) {
  std::set<std::string> subjects;
  for (uint64_t i = 0; i < 200; ++i) {
    Rng rng(3, i);
    const std::vector<int32_t> story = MakeStory(rng);
    ASSERT_EQ(story.size(), static_cast<size_t>(kStoryLength));
    ASSERT_EQ(StoryWord(story[0]), "<bos>");
    std::map<int32_t, int32_t> pairs;
    int32_t subject = -1;
    for (size_t t = 1; t + 1 < story.size(); ++t) {
      if (IsStoryAdjective(story[t])) {
        const auto [pair, is_new] = pairs.emplace(story[t], story[t + 1]);
        EXPECT_EQ(pair->second, story[t + 1]) << "an adjective of two nouns";
        if (subject < 0) subject = story[t + 1];
      } else if (IsStoryVerb(story[t])) {
        EXPECT_EQ(IsStoryPlural(story[t]), IsStoryPlural(subject));
      } else if (StoryWord(story[t]) == ".") {
        subjects.insert(StoryWord(subject));
        subject = -1;
      }
    }
    EXPECT_LE(pairs.size(), 3u);
  }
  EXPECT_EQ(subjects.size(), 24u) << "every noun is a subject somewhere";
}

TEST(StoryTest, RepeatsOneBlock) {
  for (uint64_t i = 0; i < 50; ++i) {
    Rng rng(4, i);
    const std::vector<int32_t> tokens = MakeRepeats(rng);
    size_t period = 1;
    const auto repeats = [&] {
      for (size_t t = 1 + period; t < tokens.size(); ++t) {
        if (tokens[t] != tokens[t - period]) return false;
      }
      return true;
    };
    while (period < 30 && !repeats()) ++period;
    EXPECT_LE(period, 24u);
  }
}

TEST(StoryTest, ProbabilitiesAreOfTheTargets) {
  Context context({.threads = 1, .implementations = ""});
  TrainConfig how = StoryTraining(1, 1);
  TinyModel tiny(
      context,
      TinyGpt2({.layers = 1, .vocabulary = kStoryVocabulary, .context = 64}),
      how);
  const StudyRequest request;
  const MadeBatches data(1, OpenStudyText(request).train);
  const TrainBatch batch = data.Make(0, 3);
  const std::vector<double> p =
      TargetProbabilities(context, tiny.model(), batch);
  EXPECT_EQ(p.size(), 3u * (kStoryLength - 1));
  EXPECT_NEAR(MeanLoss(p), tiny.trainer().Evaluate(data, 3), 1e-5);
}

class TextStudyTest : public ScratchFolderTest {};

TEST_F(TextStudyTest, ReadsTextsAsBytesAndRefusesShortOnes) {
  const std::string path = (folder_ / "a.txt").string();
  std::ofstream(path) << std::string(3000, 'a') + std::string(3000, 'b');
  StudyRequest request;
  request.texts = {path};
  const StudyText text = OpenStudyText(request);
  EXPECT_EQ(text.vocabulary, 256);
  Rng rng(1);
  EXPECT_EQ(text.held_out(rng).ids,
            std::vector<int32_t>(kStoryLength, int32_t{'b'}));
  std::ofstream(path) << "too short";
  EXPECT_THROW(OpenStudyText(request), Error);
}

TEST_F(TextStudyTest, TrainsTranslatorsOfPairs) {
  const std::string path = (folder_ / "pairs.tsv").string();
  std::ofstream file(path);
  for (int i = 0; i < 62; ++i) file << "eins zwei drei\tone two three four\n";
  file.close();
  StudyRequest request;
  request.effort = 0.02;
  request.texts = {path};
  ASSERT_EQ(PairsOf(request), request.texts);
  ASSERT_TRUE(TextsOf(request).empty());
  const int64_t heads[] = {1, 4};
  Context context({.threads = 1, .implementations = ""});
  const std::vector<TranslationScore> scores = TrainTranslators(
      context, request, {.width = 16, .layers = 1, .heads = heads}, 4, {1, 2});
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_EQ(scores[0].parameters, scores[1].parameters);
  EXPECT_EQ(scores[1].heads, 4);
  // Two lines are held out, of four words each.
  ASSERT_EQ(scores[0].bleu.size(), 2u);
  EXPECT_EQ(scores[0].bleu[0].counts.reference, 8);
  EXPECT_LE(scores[0].bleu[1].low, scores[0].bleu[1].score.score);
}

class LanguageStudyTest : public testing::TestWithParam<const Study*> {};

TEST_P(LanguageStudyTest, RunsAtASmallEffort) {
  Context context({.threads = 2, .implementations = ""});
  StudyRequest request;
  request.effort = 0.02;
  double done = 0;
  request.progress = [&](std::string_view, double steps, double total) {
    done = steps / total;
  };
  const StudyResult result = RunStudy(*GetParam(), context, request);
  EXPECT_FALSE(result.figures.empty());
  EXPECT_FALSE(result.tables.empty());
  EXPECT_FALSE(result.pictures.empty());
  EXPECT_FALSE(result.seeds.empty());
  EXPECT_NE(result.verdict(), Verdict::kHeld) << "one seed, few steps";
  EXPECT_DOUBLE_EQ(done, 1) << "the clock counts all steps";
  for (const Figure& figure : result.figures) {
    EXPECT_TRUE(std::isfinite(figure.value)) << figure.name;
  }
}

TEST_P(LanguageStudyTest, StopsWhenToldTo) {
  Context context({.threads = 1, .implementations = ""});
  std::stop_source stop;
  stop.request_stop();
  StudyRequest request;
  request.effort = 0.02;
  request.stop = stop.get_token();
  EXPECT_THROW(RunStudy(*GetParam(), context, request), Error);
}

std::string NameOf(const testing::TestParamInfo<const Study*>& info) {
  std::string name = info.param->name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, LanguageStudyTest,
                         testing::Values(&kHeadCountStudy, &kTranslatorsStudy,
                                         &kOneVsManyStudy, &kSpecialiseStudy,
                                         &kNegativeStudy, &kLayersStudy,
                                         &kGradientFlowStudy,
                                         &kEffectiveHeadsStudy, &kTeamStudy,
                                         &kHeadDropoutStudy, &kGatesStudy,
                                         &kMixtureStudy, &kRemovalStudy),
                         NameOf);

}  // namespace
}  // namespace headwise::story_test
