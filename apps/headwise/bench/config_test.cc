#include "bench/config.h"

#include <gmock/gmock.h>

#include <fstream>

#include "headwise/base/fields.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"

namespace headwise::bench {
namespace {

using testing::HasSubstr;

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Config, DefaultsAreValidForBothOperators) {
  EXPECT_NO_THROW(Validate(Config(), "attention"));
  EXPECT_NO_THROW(Validate(Config(), "matmul"));
}

TEST(Config, UnknownWordsGetTheNearestKnownOne) {
  Config config;
  config.mask = {"casual"};
  EXPECT_THAT(MessageOf([&] { Validate(config, "attention"); }),
              HasSubstr("did you mean causal?"));
}

TEST(Config, NumbersBelowTheirLeastAreNamed) {
  Config config;
  config.threads = {0};
  EXPECT_THAT(MessageOf([&] { Validate(config, "matmul"); }),
              HasSubstr("[threads] expected at least 1; found 0"));
  config = {};
  config.heads = 6;
  config.kv_heads = 4;
  EXPECT_THAT(MessageOf([&] { Validate(config, "attention"); }),
              HasSubstr("heads 6, kv_heads 4"));
}

TEST(Config, FieldsBelongToTheirOperator) {
  EXPECT_TRUE(FieldBelongs("heads", "attention"));
  EXPECT_FALSE(FieldBelongs("heads", "matmul"));
  EXPECT_TRUE(FieldBelongs("m", "matmul"));
  EXPECT_FALSE(FieldBelongs("m", "attention"));
  EXPECT_TRUE(FieldBelongs("threads", "attention"));
  EXPECT_TRUE(FieldBelongs("threads", "matmul"));
}

TEST(Config, ProblemTakesZerosAsTheSameAsItsNeighbour) {
  Config config;
  config.query_len = 100;
  const AttentionProblem problem = MakeProblem(config, "window");
  EXPECT_EQ(problem.kv_heads, 8);
  EXPECT_EQ(problem.key_len, 100);
  EXPECT_EQ(problem.mask, AttentionMask::SlidingWindow(256));
}

class ProblemFile : public ScratchFolderTest {
 protected:
  std::filesystem::path Write(const std::string& text) {
    const std::filesystem::path path = folder_ / "problem.json";
    std::ofstream(path) << text;
    return path;
  }
};

TEST_F(ProblemFile, GivesItsProblemsInOrder) {
  const auto problems = ReadProblems(Write(R"({"op": "attention",
                "problems": [{"heads": 2}, {"mask": ["causal"]}]})"),
                                     "attention");
  ASSERT_EQ(problems.size(), 2u);
  Config config;
  FieldsFromJson(problems[0], config, "file");
  FieldsFromJson(problems[1], config, "file");
  EXPECT_EQ(config.heads, 2);
  EXPECT_EQ(config.mask, std::vector<std::string>{"causal"});
}

TEST_F(ProblemFile, FaultsSayWhatAndWhere) {
  EXPECT_THAT(MessageOf([] { ReadProblems("no/such.json", "attention"); }),
              HasSubstr("no/such.json"));
  EXPECT_THAT(MessageOf([&] { ReadProblems(Write("{\"op\": "), "matmul"); }),
              HasSubstr(": byte 7]"));
  EXPECT_THAT(MessageOf([&] {
                ReadProblems(Write(R"({"op": "matmul", "problems": []})"),
                             "attention");
              }),
              HasSubstr("expected problems of attention; found \"matmul\""));
  EXPECT_THAT(MessageOf([&] { ReadProblems(Write("[]"), "attention"); }),
              HasSubstr("found an array of 0"));
}

// The files that ship are read by this very code.
TEST(Problems, ShippedFilesAreValid) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(HEADWISE_PROBLEMS)) {
    const std::string op =
        entry.path().filename().string().rfind("matmul", 0) == 0 ? "matmul"
                                                                 : "attention";
    for (const auto& problem : ReadProblems(entry.path(), op)) {
      Config config;
      FieldsFromJson(problem, config, entry.path().string());
      EXPECT_NO_THROW(Validate(config, op)) << entry.path();
    }
    ++files;
  }
  EXPECT_GE(files, 4);
}

}  // namespace
}  // namespace headwise::bench
