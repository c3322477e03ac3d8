// Chapters are held out whole.
#include "headwise/study/support/chapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"

namespace headwise::chapters_test {
namespace {

class ChaptersTest : public ScratchFolderTest {
 protected:
  StudyRequest Of(const std::string& text) {
    const std::string path = (folder_ / "pairs.tsv").string();
    std::ofstream(path) << text;
    StudyRequest request;
    request.texts = {path};
    return request;
  }
};

// What each pair begins with: the number of its chapter.
std::set<std::string> Numbers(const Chapters& read,
                              const std::vector<TokenPair>& pairs) {
  std::set<std::string> numbers;
  for (const TokenPair& pair : pairs) {
    const std::string text = read.tokenizer->Decode(pair.source);
    numbers.insert(text.substr(0, text.find(' ')));
  }
  return numbers;
}

TEST_F(ChaptersTest, NoChapterIsOnTwoSides) {
  std::string text;
  for (int chapter = 1; chapter <= 45; ++chapter) {
    for (int verse = 1; verse <= 3; ++verse) {
      const std::string number = std::to_string(chapter);
      text += "1:" + number + ":" + std::to_string(verse) + "\t" + number +
              " one two\t" + number + " eins zwei\n";
    }
  }
  const Chapters read = ReadChapters(Of(text));
  EXPECT_TRUE(read.given);
  EXPECT_EQ(read.record.hash.size(), 32u);
  EXPECT_EQ(read.train.size() + read.development.size() + read.test.size(),
            135u);
  EXPECT_THAT(Numbers(read, read.development),
              testing::UnorderedElementsAre("10", "30"));
  EXPECT_THAT(Numbers(read, read.test),
              testing::UnorderedElementsAre("20", "40"));
  EXPECT_EQ(Numbers(read, read.train).size(), 41u);
}

TEST_F(ChaptersTest, LinesWithoutAChapterAreNamed) {
  for (const char* line : {"one\teins\n", "1:1:1 one eins\n"}) {
    try {
      ReadChapters(Of("1:1:1\tone\teins\n" + std::string(line)));
      FAIL() << line;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("pairs.tsv:2")) << line;
    }
  }
  EXPECT_THROW(ReadChapters(Of("1:1:1\tone\teins\n")), Error) << "one chapter";
}

TEST_F(ChaptersTest, WithoutFilesALanguageIsMade) {
  const Chapters read = ReadChapters({});
  EXPECT_FALSE(read.given);
  EXPECT_FALSE(read.train.empty());
  EXPECT_FALSE(read.development.empty());
  EXPECT_FALSE(read.test.empty());
}

}  // namespace
}  // namespace headwise::chapters_test
