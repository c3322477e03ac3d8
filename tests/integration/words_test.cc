// Word-level material on the planted model, whose heads are known, and on real
// models and corpora where they are at hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>

#include "headwise/error.h"
#include "headwise/heads/profile/words/materials.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/model/checkpoint.h"
#include "shared_files.h"

namespace headwise::words_test {
namespace {

struct Loaded {
  explicit Loaded(const std::filesystem::path& folder)
      : model(OpenModel(folder)), tokenizer(Tokenizer::Load(folder)) {}
  Profile NewProfile() const { return Profile(AllHeads(*model)); }

  Context context{{2, ""}};
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
};

Loaded Planted() {
  return Loaded(std::filesystem::path(HEADWISE_SOURCE) / "assets" / "planted");
}

// A sentence whose words each depend on the one `distance` words before.
TreebankSentence Chain(const std::vector<std::string>& words,
                       int32_t distance) {
  TreebankSentence sentence;
  for (size_t w = 0; w < words.size(); ++w) {
    if (w > 0) sentence.text += ' ';
    const auto begin = static_cast<uint32_t>(sentence.text.size());
    sentence.text += words[w];
    sentence.words.push_back(
        {words[w],
         {begin, static_cast<uint32_t>(sentence.text.size())},
         static_cast<int32_t>(w) < distance
             ? -1
             : static_cast<int32_t>(w) - distance,
         "chain"});
  }
  return sentence;
}

const std::vector<std::string> kWords = {"The", "old", "house", "stood", "at",
                                         "the", "end", "of",    "a",     "lane",
                                         "by",  "her", "garden"};

TEST(Words, APreviousTokenHeadFollowsAChainOfWords) {
  Loaded planted = Planted();
  Profile profile = planted.NewProfile();
  const std::vector<TreebankSentence> bank = {Chain(kWords, 1)};
  const WordCounts counts = AddTreebank(planted.context, *planted.model,
                                        *planted.tokenizer, bank, {}, profile);
  EXPECT_EQ(counts.sequences, 1);
  EXPECT_EQ(counts.cases, 12) << "a causal model sees no dependent";
  const auto up = [&](const char* half) {
    return std::string("syntactic.chain.up.") + half;
  };
  const std::string metric =
      profile.metrics.contains(up("a")) ? up("a") : up("b");
  EXPECT_EQ(profile.Get(metric, 0).mean, 1) << "0.0 looks one token back";
  EXPECT_LT(profile.Get(metric, 6).mean, 1) << "0.6 looks two back";
  EXPECT_EQ(profile.baselines[metric + OffsetBaseline(-1)].Ratio().mean, 1);
  EXPECT_EQ(profile.baselines[metric + OffsetBaseline(-2)].Ratio().mean, 0);
}

TEST(Words, HalvesOfATreebankAddUpToTheWhole) {
  Loaded planted = Planted();
  std::vector<TreebankSentence> bank;
  for (int32_t distance = 1; distance < 8; ++distance) {
    bank.push_back(Chain(kWords, distance));
    bank.push_back(Chain({kWords.rbegin(), kWords.rend()}, distance));
  }
  const auto add = [&](size_t begin, size_t end, Profile& profile) {
    AddTreebank(planted.context, *planted.model, *planted.tokenizer,
                std::span(bank).subspan(begin, end - begin), {}, profile);
  };
  Profile whole = planted.NewProfile(), first = planted.NewProfile(),
          second = planted.NewProfile();
  add(0, bank.size(), whole);
  add(0, 5, second);
  add(5, bank.size(), first);
  first.Merge(second);
  EXPECT_EQ(first.metrics, whole.metrics);
  EXPECT_EQ(first.baselines, whole.baselines);
}

TEST(Words, ADuplicateHeadFindsRepeatedNames) {
  Loaded planted = Planted();
  Profile profile = planted.NewProfile();
  // Entity 1 is named twice; entity 2 stands between.
  CoreferenceDocument document;
  document.words = {"Mara", "walked", "with", "Tomas",
                    ".",    "Then",   "Mara", "sat"};
  document.sentence_starts = {0, 5, 8};
  document.mentions = {{0, 1, 0, 1}, {3, 4, 3, 2}, {6, 7, 6, 1}};
  const std::vector<CoreferenceDocument> documents = {document};
  const WordCounts counts =
      AddCoreference(planted.context, *planted.model, *planted.tokenizer,
                     documents, {}, profile);
  EXPECT_EQ(counts.cases, 1);
  EXPECT_EQ(profile.Get("coreference", 5).mean, 1) << "0.5 finds its like";
  EXPECT_EQ(profile.baselines["coreference.nearest"].Ratio().mean, 0);
  EXPECT_EQ(profile.baselines["coreference.same-word"].Ratio().mean, 1);
}

TEST(Words, MentionsThatCannotBeMissedDoNotCount) {
  Loaded planted = Planted();
  Profile profile = planted.NewProfile();
  // One entity alone: each later mention has but its antecedents to choose.
  CoreferenceDocument document;
  document.words = {"Mara", "walked", ".",    "Then",  "Mara",
                    "sat",  ".",      "Mara", "slept", "."};
  document.sentence_starts = {0, 3, 7, 10};
  document.mentions = {{0, 1, 0, 1}, {4, 5, 4, 1}, {7, 8, 7, 1}};
  const std::vector<CoreferenceDocument> documents = {document};
  const WordCounts counts =
      AddCoreference(planted.context, *planted.model, *planted.tokenizer,
                     documents, {}, profile);
  EXPECT_EQ(counts.cases, 0);
  EXPECT_EQ(counts.certain, 2);
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    EXPECT_EQ(profile.Get("coreference", h).count, 0) << h;
  }
  EXPECT_TRUE(profile.baselines["coreference.nearest"].empty());
  EXPECT_EQ(profile.baselines[kCertainMentions].w, 2);
}

TEST(Words, StopsBetweenSentencesAndLeavesTheProfileAsItWas) {
  Loaded planted = Planted();
  Profile profile = planted.NewProfile();
  std::stop_source stop;
  WordOptions options;
  options.stop = stop.get_token();
  options.progress = [&](std::string_view, double done, double) {
    if (done == 1) stop.request_stop();
  };
  const std::vector<TreebankSentence> bank(3, Chain(kWords, 1));
  try {
    AddTreebank(planted.context, *planted.model, *planted.tokenizer, bank,
                options, profile);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
  EXPECT_TRUE(profile.metrics.empty());
}

TEST(Words, TranslationNeedsAnEncoderDecoder) {
  Loaded planted = Planted();
  Profile profile = planted.NewProfile();
  EXPECT_THROW(
      AddTranslation(planted.context, *planted.model, *planted.tokenizer,
                     *planted.tokenizer, {}, {}, profile),
      Error);
  EXPECT_THROW(ParsePairs("no tab here\n", "pairs"), Error);
  const auto pairs = ParsePairs("1\ta b\tc d\r\n\nx\ty\n", "pairs");
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].source, "a b");
  EXPECT_EQ(pairs[0].target, "c d");
}

TEST(RealWords, MiniLmFollowsDependencies) {
  const auto archive = SharedFolder() / "data" / "ud-english-ewt.tar.xz";
  HEADWISE_REQUIRE(archive);
  HEADWISE_REQUIRE(ModelsFolder() / "minilm-l6");
  Loaded minilm(ModelsFolder() / "minilm-l6");
  auto bank = ReadTreebank(UnpackedData("ud-english-ewt") / "ud-english-ewt" /
                           "en_ewt-ud-dev.conllu");
  EXPECT_EQ(bank.size(), 2001u);
  bank.resize(500);
  Profile profile = minilm.NewProfile();
  AddTreebank(minilm.context, *minilm.model, *minilm.tokenizer, bank, {},
              profile);
  std::set<std::string> relations;
  for (const HeadRoles& head : AssignRoles(profile)) {
    for (const Role& role : head.roles) relations.insert(role.name);
  }
  EXPECT_THAT(relations,
              testing::IsSupersetOf({"syntactic(obj)", "syntactic(nsubj)",
                                     "syntactic(det)", "syntactic(case)"}));
}

TEST(RealWords, MiniLmFindsAntecedents) {
  const auto archive = SharedFolder() / "data" / "litbank-coref.tar.xz";
  HEADWISE_REQUIRE(archive);
  HEADWISE_REQUIRE(ModelsFolder() / "minilm-l6");
  Loaded minilm(ModelsFolder() / "minilm-l6");
  auto documents = ReadCoreference(UnpackedData("litbank-coref") / "litbank" /
                                   "coref" / "conll");
  EXPECT_EQ(documents.size(), 100u);
  documents.resize(3);
  Profile profile = minilm.NewProfile();
  AddCoreference(minilm.context, *minilm.model, *minilm.tokenizer, documents,
                 {}, profile);
  double best = 0;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    best = std::max(best, profile.Get("coreference", h).mean);
  }
  EXPECT_GT(best, profile.baselines["coreference.nearest"].Ratio().mean + .1);
  EXPECT_GT(best, profile.baselines["coreference.same-word"].Ratio().mean);
}

}  // namespace
}  // namespace headwise::words_test
