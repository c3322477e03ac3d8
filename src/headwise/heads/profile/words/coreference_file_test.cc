#include "headwise/heads/profile/words/coreference_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/error.h"

namespace headwise::coreference_file_test {
namespace {

std::string Row(const std::string& word, const std::string& mentions) {
  return "book\t0\t0\t" + word + "\t_\t_\t" + mentions + "\n";
}

std::string Message(const std::string& conll) {
  try {
    ParseCoreference(conll, "book.conll");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(CoreferenceFile, ReadsNestedMentionsAndSentences) {
  const auto documents = ParseCoreference(
      "#begin document (book); part 0\n" + Row("The", "(1") + Row("wife", "") +
          Row("of", "") + Row("Tom", "(2)|1)") + Row("slept", "") + "\n" +
          Row("She", "(1)") + Row("woke", "_") + "\n#end document\n",
      "book.conll");
  ASSERT_EQ(documents.size(), 1u);
  const CoreferenceDocument& book = documents[0];
  EXPECT_EQ(book.name, "book");
  EXPECT_THAT(book.sentence_starts, testing::ElementsAre(0, 5, 7));
  ASSERT_EQ(book.mentions.size(), 3u);
  EXPECT_EQ(book.mentions[0].begin, 0);
  EXPECT_EQ(book.mentions[0].end, 4);
  EXPECT_EQ(book.mentions[0].head, 1);
  EXPECT_EQ(book.mentions[1].head, 3);
  EXPECT_EQ(book.mentions[1].entity, 2);
  EXPECT_EQ(book.mentions[2].begin, 5);
  EXPECT_EQ(book.mentions[2].entity, 1);
}

TEST(CoreferenceFile, FindsHeadWords) {
  const std::vector<std::string> words = {"the", "old", "master", "of",
                                          "Tom", "'s",  "house"};
  EXPECT_EQ(HeadWord(words, 0, 7), 2);
  EXPECT_EQ(HeadWord(words, 4, 6), 4);
  EXPECT_EQ(HeadWord(words, 4, 7), 6);
  EXPECT_EQ(HeadWord(words, 3, 4), 3);
}

TEST(CoreferenceFile, NamesTheLineOfBrokenMentions) {
  EXPECT_THAT(Message(Row("a", "1)")), testing::HasSubstr("line 1"));
  EXPECT_THAT(Message(Row("a", "(1")), testing::HasSubstr("to be closed"));
  EXPECT_THAT(Message(Row("a", "(x)")), testing::HasSubstr("(3)"));
  EXPECT_THAT(Message(Row("a", "1")), testing::HasSubstr("(3)"));
  EXPECT_THAT(Message(Row("a", "(")), testing::HasSubstr("(3)"));
  EXPECT_THAT(Message("a b c\n"), testing::HasSubstr("columns"));
  EXPECT_THAT(Message(""), testing::HasSubstr("at least one"));
}

}  // namespace
}  // namespace headwise::coreference_file_test
