// The recipe's text is what training makes of files, and studies read it.
#include "headwise/study/support/novels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"

namespace headwise::novels_test {
namespace {

std::string Asset(const char* name) {
  return (std::filesystem::path(HEADWISE_SOURCE) / "assets" / name).string();
}

StudyRequest Reading() {
  StudyRequest request;
  request.full = true;
  request.effort = 0.001;
  request.seed_count = 1;
  request.texts = {Asset("text/the-lamp-at-sorrel-point.txt")};
  request.reading = request.texts;
  request.model = Asset("novels");
  return request;
}

class NovelsTest : public ScratchFolderTest {
 protected:
  // 20 books of `words` words; the last has others.
  StudyRequest Books(int words) {
    for (int i = 0; i < 20; ++i) {
      std::ofstream file(folder_ / ("book" + std::to_string(10 + i) + ".txt"));
      for (int k = 0; k < words; ++k) file << (i == 19 ? " moon" : " sun");
    }
    StudyRequest request = Reading();
    request.texts = {folder_.string()};
    return request;
  }

  Context context_{{.threads = 2, .implementations = ""}};
};

TEST_F(NovelsTest, WindowsBeginWithTheFirstTokenAndTheEndIsHeldOut) {
  const Language language(context_, Reading());
  ASSERT_TRUE(language.novels());
  EXPECT_EQ(language.vocabulary(), 4096);
  const TrainConfig how = language.Training(3, 5);
  const auto train = language.Train(how);
  const TrainBatch batch = train->Make(0, 2);
  ASSERT_EQ(std::ssize(batch.ids), 2 * language.length());
  EXPECT_EQ(batch.ids[0], 0);
  EXPECT_EQ(batch.ids[language.length()], 0);
  EXPECT_EQ(batch.ids[1], batch.targets[0]);
  // Nineteen twentieths are trained on, the rest is not.
  EXPECT_NEAR(static_cast<double>(language.HeldOut().size()) /
                  static_cast<double>(train->size()),
              1 / 19.0, 0.03);
  const auto tokenizer = Tokenizer::Load(Asset("novels"));
  const TrainBatch held = language.HeldOut().Make(0, 1);
  const std::string said = tokenizer->Decode(held.targets);
  std::ifstream file(Reading().texts[0]);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  EXPECT_GT(all.find(said), all.size() * 9 / 10) << said;
  EXPECT_NE(all.find(said), std::string::npos) << said;
}

TEST_F(NovelsTest, EveryTwentiethFileIsHeldOut) {
  const Language language(context_, Books(100));
  const auto tokenizer = Tokenizer::Load(Asset("novels"));
  const std::string held =
      tokenizer->Decode(language.HeldOut().Make(0, 1).targets);
  EXPECT_EQ(held.find("sun"), std::string::npos) << held;
  EXPECT_NE(held.find("moon"), std::string::npos) << held;
}

TEST_F(NovelsTest, SeedsOrderTheWindowsAndRepeatsStandAmongThem) {
  const Language language(context_, Reading());
  const auto ids = [&](const TrainConfig& how) {
    return language.Train(how)->Make(0, 8).ids;
  };
  EXPECT_EQ(ids(language.Training(1, 5)), ids(language.Training(1, 5)));
  EXPECT_NE(ids(language.Training(1, 5)), ids(language.Training(2, 5)));
  EXPECT_NE(ids(language.Training(1, 500)),
            ids(language.WithRepeats(language.Training(1, 500))));
}

TEST_F(NovelsTest, TheRecipeHasTheParametersItIsKnownFor) {
  StudyRequest request = Books(600);
  request.effort = 1;
  const Language language(context_, request);
  EXPECT_EQ(language.length(), 512);
  const TrainConfig how = language.Training(1, 1);
  EXPECT_EQ(how.batch, 64);
  EXPECT_EQ(language.NewModel(context_, {}, how)->store().Count(), 5795072);
  EXPECT_EQ(language.NewModel(context_, {.heads = 128}, how)->store().Count(),
            5795072);
}

TEST_F(NovelsTest, TextsNeedATokenizer) {
  StudyRequest request = Reading();
  request.model.clear();
  EXPECT_THROW(Language(context_, request), Error);
  request.full = false;
  EXPECT_FALSE(Language(context_, request).novels());
}

// A part of the recipe model, for a step: what --full --text runs. The others
// of its studies take longer on a CPU.
class RecipeStudyTest : public testing::TestWithParam<const Study*> {};

TEST_P(RecipeStudyTest, RunsAndIsHeldToWhatTheQuickOneExpects) {
  Context context({.threads = 2, .implementations = ""});
  const StudyResult result = RunStudy(*GetParam(), context, Reading());
  EXPECT_EQ(StudyHash(*GetParam(), result), ExpectedHash(*GetParam(), context));
  for (const Figure& figure : result.figures) {
    EXPECT_TRUE(std::isfinite(figure.value)) << figure.name;
  }
}

std::string NameOf(const testing::TestParamInfo<const Study*>& study) {
  std::string name = study.param->name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, RecipeStudyTest,
                         testing::Values(&kHeadCountStudy, &kOneVsManyStudy,
                                         &kGatesStudy),
                         NameOf);

}  // namespace
}  // namespace headwise::novels_test
