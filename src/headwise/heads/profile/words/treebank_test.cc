#include "headwise/heads/profile/words/treebank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/error.h"

namespace headwise::treebank_test {
namespace {

std::string Row(const std::string& id, const std::string& form,
                const std::string& governor, const std::string& relation,
                const std::string& misc = "_") {
  return id + "\t" + form + "\t_\t_\t_\t_\t" + governor + "\t" + relation +
         "\t_\t" + misc + "\n";
}

std::string Message(const std::string& conllu) {
  try {
    ParseTreebank(conllu, "bank.conllu");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

const std::string kCats = "# sent_id = one\n# text = Cats sleep.\n" +
                          Row("1", "Cats", "2", "nsubj") +
                          Row("2", "sleep", "0", "root", "SpaceAfter=No") +
                          Row("3", ".", "2", "punct") + "\n";

TEST(Treebank, ReadsWordsPlacesAndGovernors) {
  const auto bank = ParseTreebank(kCats + kCats, "bank.conllu");
  ASSERT_EQ(bank.size(), 2u);
  EXPECT_EQ(bank[0].id, "one");
  ASSERT_EQ(bank[0].words.size(), 3u);
  EXPECT_EQ(bank[0].words[0].governor, 1);
  EXPECT_EQ(bank[0].words[0].relation, "nsubj");
  EXPECT_EQ(bank[0].words[1].governor, -1);
  EXPECT_EQ(bank[0].words[2].bytes, (TextSpan{10, 11}));
}

TEST(Treebank, SplitsMultiWordTokensThatTheirWordsSpell) {
  const auto bank = ParseTreebank(
      "# text = I don't.\n" + Row("1", "I", "3", "nsubj") +
          Row("2-3", "don't", "_", "_", "SpaceAfter=No") +
          Row("2", "do", "3", "aux") + Row("3", "n't", "0", "root") +
          Row("4", ".", "3", "punct"),
      "bank");
  EXPECT_EQ(bank[0].words[1].bytes, (TextSpan{2, 4}));
  EXPECT_EQ(bank[0].words[2].bytes, (TextSpan{4, 7}));
}

TEST(Treebank, SharesTheBytesOfMultiWordTokensOtherwise) {
  const auto bank = ParseTreebank(
      "# text = du pain\n" + Row("1-2", "du", "_", "_") +
          Row("1", "de", "3", "case") + Row("2", "le", "3", "det") +
          Row("3", "pain", "0", "root"),
      "bank");
  EXPECT_EQ(bank[0].words[0].bytes, (TextSpan{0, 2}));
  EXPECT_EQ(bank[0].words[1].bytes, (TextSpan{0, 2}));
  EXPECT_EQ(bank[0].words[2].bytes, (TextSpan{3, 7}));
}

TEST(Treebank, PassesOverEmptyNodesAndReadsWindowsLines) {
  std::string text = "# newdoc\r\n# text = Go home\r\n";
  text += "1\tGo\t_\t_\t_\t_\t0\troot\t_\t_\r\n";
  text += "1.1\tyou\t_\t_\t_\t_\t_\t_\t1:nsubj\t_\r\n";
  text += "2\thome\t_\t_\t_\t_\t1\tadvmod\t_\t_\r\n";
  const auto bank = ParseTreebank(text, "bank");
  ASSERT_EQ(bank[0].words.size(), 2u);
  EXPECT_EQ(bank[0].words[1].governor, 0);
}

TEST(Treebank, SpellsTheTextWhereThereIsNoTextLine) {
  const auto bank =
      ParseTreebank(Row("1", "Stop", "0", "root", "SpaceAfter=No") +
                        Row("2", "!", "1", "punct"),
                    "bank");
  EXPECT_EQ(bank[0].text, "Stop! ");
  EXPECT_EQ(bank[0].words[1].bytes, (TextSpan{4, 5}));
}

TEST(Treebank, NamesTheSentenceWhoseWordsAreNotThoseOfItsText) {
  std::string broken = kCats;
  broken.replace(broken.find("Cats sleep"), 4, "Dogs");
  EXPECT_THAT(Message(kCats + broken),
              testing::AllOf(testing::HasSubstr("bank.conllu, sentence 2"),
                             testing::HasSubstr("\"Cats\""),
                             testing::HasSubstr("\"Dogs sleep.\"")));
  std::string longer = kCats;
  longer.replace(longer.find("sleep."), 6, "sleep. Well");
  EXPECT_THAT(Message(longer), testing::HasSubstr("\"Well\""));
}

TEST(Treebank, NamesWhatIsNoTreebank) {
  EXPECT_THAT(Message("1\tCats\n"), testing::HasSubstr("10 columns"));
  EXPECT_THAT(Message("plain text\n"),
              testing::HasSubstr("sentence 1, line 1"));
  EXPECT_THAT(Message(""), testing::HasSubstr("at least one sentence"));
  EXPECT_THAT(Message(Row("2", "x", "0", "root")),
              testing::HasSubstr("expected word 1; found 2"));
  EXPECT_THAT(Message(Row("1", "x", "7", "obj")),
              testing::HasSubstr("among the 1"));
  EXPECT_THAT(Message(Row("1", "x", "_", "obj")), testing::HasSubstr("above"));
  EXPECT_THAT(Message(Row("1", "x", "1", "obj")), testing::HasSubstr("above"));
  EXPECT_THAT(Message(Row("1-3", "xy", "_", "_") + Row("1", "x", "0", "root")),
              testing::HasSubstr("words up to 3"));
  EXPECT_THAT(Message(Row("2-3", "xy", "_", "_")),
              testing::HasSubstr("begins at word 1"));
  EXPECT_THAT(Message("# text = \xff\n" + Row("1", "\xff", "0", "root")),
              testing::HasSubstr("UTF-8"));
}

}  // namespace
}  // namespace headwise::treebank_test
