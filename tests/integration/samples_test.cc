// The treebank and the coreference sample that ship: well-formed, and large
// enough for roles to be told from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "headwise/base/mapped_file.h"
#include "headwise/heads/profile/words/coreference_file.h"
#include "headwise/heads/profile/words/treebank.h"

namespace headwise::samples_test {
namespace {

using testing::AnyOf;
using testing::EndsWith;

std::filesystem::path Sample(const char* folder) {
  return std::filesystem::path(HEADWISE_SOURCE) / "assets" / folder;
}

// Of Universal Dependencies, version 2, as far as plain English needs them.
const std::set<std::string> kRelations = {
    "acl:relcl", "advcl",      "advmod", "amod",         "aux",  "aux:pass",
    "case",      "cc",         "ccomp",  "compound:prt", "conj", "cop",
    "det",       "expl",       "iobj",   "mark",         "nmod", "nmod:poss",
    "nsubj",     "nsubj:pass", "nummod", "obj",          "obl",  "obl:agent",
    "punct",     "root",       "xcomp"};

TEST(ShippedTreebank, IsTreesOfKnownRelations) {
  const std::vector<TreebankSentence> sentences =
      ReadTreebank(Sample("treebank"));
  EXPECT_GE(sentences.size(), 300);
  std::set<std::string> ids, texts;
  std::map<std::string, int> counts;
  for (const TreebankSentence& sentence : sentences) {
    SCOPED_TRACE(sentence.id + ": " + sentence.text);
    EXPECT_TRUE(ids.insert(sentence.id).second);
    EXPECT_TRUE(texts.insert(sentence.text).second);
    EXPECT_THAT(sentence.text, AnyOf(EndsWith("."), EndsWith("?")));
    const auto count = static_cast<int32_t>(sentence.words.size());
    int roots = 0;
    for (int32_t w = 0; w < count; ++w) {
      const TreebankWord& word = sentence.words[w];
      EXPECT_TRUE(kRelations.contains(word.relation)) << word.relation;
      EXPECT_EQ(word.governor < 0, word.relation == "root") << word.form;
      if (word.governor < 0) ++roots;
      int32_t at = w, steps = 0;
      while (at >= 0 && steps <= count) {
        at = sentence.words[at].governor;
        ++steps;
      }
      EXPECT_LE(steps, count) << word.form << " stands above itself";
      ++counts[word.relation];
    }
    EXPECT_EQ(roots, 1);
  }
  // A role is given from 100 cases of a half on.
  for (const char* relation :
       {"det", "nsubj", "obj", "amod", "case", "obl", "nmod:poss"}) {
    EXPECT_GE(counts[relation], 220) << relation;
  }
}

// No function word governs, and what it belongs to follows or precedes as in
// plain English.
TEST(ShippedTreebank, KeepsToTheRulesOfItsRelations) {
  for (const TreebankSentence& sentence : ReadTreebank(Sample("treebank"))) {
    SCOPED_TRACE(sentence.id + ": " + sentence.text);
    for (size_t w = 0; w < sentence.words.size(); ++w) {
      const TreebankWord& word = sentence.words[w];
      if (word.governor < 0) continue;
      const TreebankWord& above =
          sentence.words[static_cast<size_t>(word.governor)];
      const auto here = static_cast<int32_t>(w);
      const std::set<std::string> leaves = {"det", "case", "cc",    "cop",
                                            "aux", "mark", "punct", "aux:pass"};
      EXPECT_FALSE(leaves.contains(above.relation))
          << above.form << " governs " << word.form;
      const std::set<std::string> before = {
          "det", "amod", "nmod:poss", "nsubj", "nsubj:pass", "cc",
          "cop", "aux",  "aux:pass",  "mark",  "nummod"};
      const std::set<std::string> after = {"conj", "acl:relcl", "nmod",
                                           "iobj", "xcomp",     "ccomp"};
      const bool there = above.relation == "root" && above.form == "was";
      if (before.contains(word.relation) && !there && above.form != "is") {
        EXPECT_LT(here, word.governor) << word.form;
      }
      if (after.contains(word.relation)) {
        EXPECT_GT(here, word.governor) << word.form;
      }
    }
  }
}

TEST(ShippedCoreference, HasPassagesWhoseMentionsComeBack) {
  const std::vector<CoreferenceDocument> passages =
      ReadCoreference(Sample("coref"));
  EXPECT_GE(passages.size(), 30);
  std::set<std::string> names;
  int again = 0;
  for (const CoreferenceDocument& passage : passages) {
    SCOPED_TRACE(passage.name);
    EXPECT_TRUE(names.insert(passage.name).second);
    EXPECT_GE(passage.sentence_starts.size(), 4);
    EXPECT_GE(passage.mentions.size(), 6);
    std::map<int32_t, int> entities;
    for (const Mention& mention : passage.mentions) {
      again += entities[mention.entity]++ > 0 ? 1 : 0;
      EXPECT_GE(mention.head, mention.begin);
      EXPECT_LT(mention.head, mention.end);
      EXPECT_LE(mention.end - mention.begin, 4) << passage.words[mention.begin];
      for (int32_t w = mention.begin; w < mention.end; ++w) {
        EXPECT_NE(passage.words[w], ".") << passage.words[mention.begin];
      }
    }
    EXPECT_GE(entities.size(), 2);
  }
  EXPECT_GE(again, 150);
}

}  // namespace
}  // namespace headwise::samples_test
