// Every study runs, holds where it is a law, and its bookkeeping can fail.
#include "headwise/study/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "headwise/error.h"

namespace headwise::study_test {
namespace {

class StudyTest : public testing::TestWithParam<const Study*> {
 protected:
  // Of the study on one thread, which is run once.
  static const StudyResult& Result() {
    static std::map<const Study*, StudyResult> results;
    const auto [place, fresh] = results.try_emplace(GetParam());
    if (fresh) {
      Context one({.threads = 1, .implementations = ""});
      place->second = RunStudy(*GetParam(), one);
    }
    return place->second;
  }
};

TEST_P(StudyTest, ItsHashIsKnownBeforeTheRun) {
  Context context({.threads = 1, .implementations = ""});
  EXPECT_EQ(ExpectedHash(*GetParam(), context),
            StudyHash(*GetParam(), Result()));
}

TEST_P(StudyTest, HoldsWithTheSameFiguresOnTwoThreads) {
  Context two({.threads = 2, .implementations = ""});
  const StudyResult& result = Result();
  const StudyResult again = RunStudy(*GetParam(), two);
  EXPECT_FALSE(result.figures.empty());
  EXPECT_FALSE(result.pictures.empty());
  EXPECT_FALSE(result.seeds.empty());
  ASSERT_EQ(result.figures.size(), again.figures.size());
  for (size_t i = 0; i < result.figures.size(); ++i) {
    const Figure& figure = result.figures[i];
    EXPECT_TRUE(figure.as_expected() || GetParam()->kind != StudyKind::kLaw)
        << figure.name << ": " << figure.value << ", expected "
        << figure.expected;
    EXPECT_EQ(figure.value, again.figures[i].value) << figure.name;
  }
}

std::string TestName(const testing::TestParamInfo<const Study*>& info) {
  std::string name = info.param->name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
std::vector<const Study*> Untrained() {
  std::vector<const Study*> studies(Studies().begin(), Studies().end());
  std::erase_if(studies, [](const Study* study) { return study->trained; });
  return studies;
}
INSTANTIATE_TEST_SUITE_P(Untrained, StudyTest, testing::ValuesIn(Untrained()),
                         TestName);

TEST(StudyResultTest, FiguresOfAWeakerKindDoNotDecide) {
  StudyResult result;
  result.kind = StudyKind::kLaw;
  result.AtMost("theorem", 0, 1);
  result.Expect(StudyKind::kLiterature);
  result.AtMost("finding", 2, 1);
  EXPECT_EQ(result.verdict(), Verdict::kHeld);
  EXPECT_TRUE(result.laws_held());
  result.kind = StudyKind::kLiterature;
  EXPECT_EQ(result.verdict(), Verdict::kRefuted);
  EXPECT_TRUE(result.laws_held());
  result.Expect(StudyKind::kLaw);
  result.AtMost("broken theorem", 2, 1);
  EXPECT_FALSE(result.laws_held());
}

TEST(StudyResultTest, WhatIsOnlyInformationDoesNotDecide) {
  StudyResult result;
  result.AtMost("own", 0, 1);
  result.InformOnly();
  result.AtMost("a given model's", 2, 1);
  EXPECT_EQ(result.verdict(), Verdict::kHeld);
}

TEST(StudyListTest, WhatWasChangedSaysWhatWhyAndWhere) {
  for (const Study* study : Studies()) {
    EXPECT_GE(study->revision, 1) << study->name;
    for (const StudyChange& change : study->history) {
      for (const char* word :
           {change.first, change.changed, change.why, change.commit}) {
        EXPECT_STRNE(word, "") << study->name;
      }
    }
  }
  for (const char* name : {"symmetry", "gates", "specialise", "tasty"}) {
    EXPECT_TRUE(FindStudy(name).changed_after_result()) << name;
  }
  // Before any result: told all the same.
  EXPECT_FALSE(FindStudy("prune-curve").history.empty());
  EXPECT_FALSE(FindStudy("prune-curve").changed_after_result());
}

TEST(StudyListTest, NamesAreUniqueAndTheNearestIsNamed) {
  std::set<std::string> names;
  for (const Study* study : Studies()) names.insert(study->name);
  EXPECT_EQ(names.size(), Studies().size());
  EXPECT_STREQ(FindStudy("rank").name, "rank");
  try {
    FindStudy("normalize-order");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), testing::HasSubstr("normalise-order"));
  }
}

}  // namespace
}  // namespace headwise::study_test
