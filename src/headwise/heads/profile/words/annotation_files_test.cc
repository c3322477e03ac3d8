#include "headwise/heads/profile/words/annotation_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/heads/profile/words/coreference_file.h"
#include "headwise/heads/profile/words/treebank.h"

namespace headwise::annotation_files_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AnnotationFilesTest : public ScratchFolderTest {
 protected:
  std::filesystem::path Write(const std::string& name,
                              const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  static std::string MessageOf(const auto& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

constexpr char kGo[] = "1\tGo\t_\t_\t_\t_\t0\troot\t_\t_\n";
constexpr char kStop[] = "1\tStop\t_\t_\t_\t_\t0\troot\t_\t_\n";

TEST_F(AnnotationFilesTest, FoldersAreReadInTheOrderOfNames) {
  const auto b = Write("b.conllu", kGo), a = Write("a.conllu", kStop);
  Write("README.txt", "no treebank");
  Write(".hidden.conllu", "no treebank");
  EXPECT_THAT(AnnotationFiles(folder_, ".conllu"), ElementsAre(a, b));
  const auto bank = ReadTreebank(folder_);
  ASSERT_EQ(bank.size(), 2u);
  EXPECT_EQ(bank[0].words[0].form, "Stop");
  EXPECT_EQ(bank[1].words[0].form, "Go");
  EXPECT_EQ(ReadTreebank(b).size(), 1u);
}

TEST_F(AnnotationFilesTest, AFolderWithoutAnySaysSo) {
  Write("README.txt", "no treebank");
  EXPECT_THAT(MessageOf([&] { ReadTreebank(folder_); }),
              HasSubstr("files that end in .conllu; found none"));
}

TEST_F(AnnotationFilesTest, AFileOfAFolderThatIsWrongIsNamed) {
  Write("a.conllu", kGo);
  Write("b.conllu", "1\tGo\n");
  EXPECT_THAT(MessageOf([&] { ReadTreebank(folder_); }),
              HasSubstr("b.conllu, sentence 1, line 1"));
}

// A treebank, say, whose last column holds something else.
TEST_F(AnnotationFilesTest, CoreferenceWithoutMentionsIsNone) {
  const auto file = Write("a.conll", kGo);
  EXPECT_THAT(MessageOf([&] { ReadCoreference(file); }),
              HasSubstr("mentions such as (3) in the last column; found none"));
}

}  // namespace
}  // namespace headwise::annotation_files_test
