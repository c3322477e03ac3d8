// Every study runs, holds where it is a law, and its bookkeeping can fail.
#include "headwise/study/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "headwise/error.h"

namespace headwise {
namespace {

class StudyTest : public testing::TestWithParam<const Study*> {};

TEST_P(StudyTest, HoldsWithTheSameFiguresOnTwoThreads) {
  Context one({.threads = 1, .implementations = ""});
  Context two({.threads = 2, .implementations = ""});
  const StudyResult result = RunStudy(*GetParam(), one);
  const StudyResult again = RunStudy(*GetParam(), two);
  EXPECT_FALSE(result.figures.empty());
  EXPECT_FALSE(result.pictures.empty());
  EXPECT_FALSE(result.seeds.empty());
  ASSERT_EQ(result.figures.size(), again.figures.size());
  for (size_t i = 0; i < result.figures.size(); ++i) {
    const Figure& figure = result.figures[i];
    EXPECT_TRUE(figure.held || GetParam()->kind != StudyKind::kLaw)
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

TEST(StudyResultTest, FiguresFailWhereTheyShould) {
  StudyResult result;
  EXPECT_FALSE(result.held()) << "nothing was measured";
  result.AtMost("a", 1, 1);
  result.AtLeast("b", 2, 1);
  result.Near("c", 1.05, 1, 0.1);
  EXPECT_TRUE(result.held());
  auto fails = [](auto add) {
    StudyResult one;
    add(one);
    return !one.held();
  };
  EXPECT_TRUE(fails([](StudyResult& r) { r.AtMost("", 1.1, 1); }));
  EXPECT_TRUE(fails([](StudyResult& r) { r.AtLeast("", 0.9, 1); }));
  EXPECT_TRUE(fails([](StudyResult& r) { r.Near("", 1.2, 1, 0.1); }));
  EXPECT_TRUE(fails([](StudyResult& r) { r.Near("", std::nan(""), 1, 1); }));
  EXPECT_TRUE(fails([](StudyResult& r) { r.AtMost("", std::nan(""), 1); }));
}

TEST(StudyResultTest, FiguresOfAWeakerKindDoNotDecide) {
  StudyResult result;
  result.kind = StudyKind::kLaw;
  result.AtMost("theorem", 0, 1);
  result.Expect(StudyKind::kLiterature);
  result.AtMost("finding", 2, 1);
  EXPECT_TRUE(result.held() && result.laws_held());
  result.kind = StudyKind::kLiterature;
  EXPECT_FALSE(result.held());
  EXPECT_TRUE(result.laws_held());
  result.Expect(StudyKind::kLaw);
  result.AtMost("broken theorem", 2, 1);
  EXPECT_FALSE(result.laws_held());
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
}  // namespace headwise
