#include "headwise/base/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"

namespace headwise::json_lines_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JsonLines : public ScratchFolderTest {
 protected:
  std::vector<int> Steps(const std::string& text) {
    std::ofstream(folder_ / "a.jsonl") << text;
    std::vector<int> steps;
    ReadJsonLines(folder_ / "a.jsonl", "a step", [&](const Json& line) {
      steps.push_back(line.at("step").get<int>());
    });
    return steps;
  }
  std::string Refusal(const std::string& text) {
    try {
      Steps(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      return error.what();
    }
    return "";
  }
};

TEST_F(JsonLines, AreReadOneByOne) {
  EXPECT_THAT(Steps("{\"step\": 1}\n{\"step\": 2}\n"), ElementsAre(1, 2));
  EXPECT_THAT(Steps("{\"step\": 3}"), ElementsAre(3));
  EXPECT_THAT(Steps(""), ElementsAre());
}

TEST_F(JsonLines, NoFileHasNone) {
  ReadJsonLines(folder_ / "nothing", "a step",
                [](const Json&) { ADD_FAILURE() << "a line of no file"; });
}

TEST_F(JsonLines, ErrorsNameTheLine) {
  EXPECT_THAT(Refusal("{\"step\": 1}\n{\"st"), HasSubstr("a.jsonl:2"));
  EXPECT_THAT(Refusal("{\"step\": 1}\n{\"stop\": 2}\n"),
              HasSubstr("a.jsonl:2"));
  EXPECT_THAT(Refusal("{\"step\": \"one\"}\n"), HasSubstr("a step"));
}

}  // namespace
}  // namespace headwise::json_lines_test
