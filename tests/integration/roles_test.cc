// Roles of real models, where they are at hand: what is known of their heads.
#include "headwise/heads/roles/roles.h"
#include "headwise/text_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "ctranslate2_model.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/model/checkpoint.h"
#include "headwise/runtime/generate.h"
#include "shared_files.h"

namespace headwise::roles_test {
namespace {

std::unique_ptr<Tokenizer> TokenizerOf(const std::filesystem::path& folder) {
  return Tokenizer::Load(folder);
}

// Windows of 128 tokens: minilm was never shown longer ones.
// A profile of the random repeats, and of `text` where given.
Profile ProfileOf(const std::filesystem::path& folder,
                  const std::string& text = "") {
  const auto model = OpenModel(folder);
  const auto tokenizer = TokenizerOf(folder);
  Context context({2, ""});
  ProfileOptions options;
  options.repeats = 16;
  options.context = 128;
  Profiler profiler(context, *model, tokenizer.get(), "model", "hash", options);
  profiler.AddProbes();
  if (!text.empty()) {
    TextSource source({text});
    profiler.AddText(source);
  }
  return profiler.Take();
}

// Heads with a role and its score, largest score first.
std::vector<std::pair<std::string, double>> HeadsWith(const Profile& profile,
                                                      const std::string& name) {
  std::vector<std::pair<std::string, double>> found;
  for (const HeadRoles& head : AssignRoles(profile)) {
    for (const Role& role : head.roles) {
      if (role.name == name && !role.sink_excluded) {
        found.emplace_back(ToString(head.head), role.score);
      }
    }
  }
  std::stable_sort(
      found.begin(), found.end(),
      [](const auto& a, const auto& b) { return a.second > b.second; });
  return found;
}

std::vector<std::string> Names(
    const std::vector<std::pair<std::string, double>>& heads) {
  std::vector<std::string> names;
  for (const auto& [name, score] : heads) names.push_back(name);
  return names;
}

TEST(RealRoles, MiniMindHasThreeInductionHeads) {
  const auto folder = ModelsFolder() / "minimind2-small";
  HEADWISE_REQUIRE(folder);
  const Profile profile = ProfileOf(folder);
  EXPECT_THAT(Names(HeadsWith(profile, "induction")),
              testing::ElementsAre("5.1", "5.0", "5.3"));
  EXPECT_THAT(Names(HeadsWith(profile, "previous-token")),
              testing::ElementsAre("4.0"));
  EXPECT_GT(HeadsWith(profile, "first-token").size(), 10u);
}

TEST(RealRoles, Stories260KHasPreviousTokenHeadsAndNoInduction) {
  const auto folder = SharedFolder() / "models" / "stories260K";
  HEADWISE_REQUIRE(folder);
  const Profile profile = ProfileOf(folder);
  EXPECT_THAT(Names(HeadsWith(profile, "previous-token")),
              testing::ElementsAre("3.6", "1.3"));
  EXPECT_THAT(HeadsWith(profile, "induction"), testing::IsEmpty());
}

TEST(RealRoles, MiniLmHasAPerfectPreviousTokenHead) {
  const auto folder = ModelsFolder() / "minilm-l6";
  HEADWISE_REQUIRE(folder);
  const Profile profile = ProfileOf(
      folder, std::string(HEADWISE_SOURCE) + "/assets/planted/vocabulary.txt");
  const auto heads = HeadsWith(profile, "previous-token");
  ASSERT_FALSE(heads.empty());
  EXPECT_EQ(heads[0].first, "0.2");
  EXPECT_GE(heads[0].second, .95);
}

TEST(RealRoles, TransliterationReadsAlongTheDiagonal) {
  const auto folder = SharedFolder() / "models" / "transliterate-ar-en";
  HEADWISE_REQUIRE(folder);
  const auto letters = ReadLines(folder / "source_vocabulary.txt");
  const auto model = OpenCTranslate2(folder);
  Context context({2, ""});
  // Two names a word, so that the diagonal is not all there is.
  const std::vector<std::vector<std::string>> names = {
      {"ن", "ي", "ك", "و", "ل", "ا", "س"}, {"آ", "ت", "ز", "م", "و", "ن"},
      {"م", "ا", "ر", "ت", "ي", "ن"},      {"س", "ل", "ي", "م", "ا", "ن"},
      {"ف", "ر", "ن", "س", "ي", "س"},      {"ب", "ن", "ي", "ا", "م", "ي", "ن"},
  };
  std::vector<TokenWindow> windows;
  for (size_t a = 0; a < names.size(); ++a) {
    for (size_t b = 0; b < names.size(); ++b) {
      TokenWindow window;
      for (const auto& name : {names[a], names[b]}) {
        for (const std::string& letter : name) {
          const auto at = std::find(letters.begin(), letters.end(), letter);
          window.source.ids.push_back(
              static_cast<int32_t>(at - letters.begin()));
        }
      }
      GenerateJob job;
      job.max_tokens = 40;
      window.target.ids = {1};
      for (const int32_t id :
           Generate(context, *model, window.source.ids, job)) {
        window.target.ids.push_back(id);
      }
      for (TokenRow* row : {&window.source, &window.target}) {
        row->spans.resize(row->ids.size());
        row->added.assign(row->ids.size(), 0);
      }
      window.target.added[0] = 1;
      SetKey(window);
      windows.push_back(std::move(window));
    }
  }
  Profiler profiler(context, *model, nullptr, "transliterate", "hash", {});
  profiler.AddWindows(std::move(windows));
  const Profile profile = profiler.Take();
  const auto heads = HeadsWith(profile, "monotone");
  EXPECT_GE(heads.size(), 5u);
  for (const auto& [name, score] : heads) {
    EXPECT_THAT(name, testing::StartsWith("cross:"));
  }
  ASSERT_FALSE(heads.empty());
  EXPECT_GT(heads[0].second, .8);
}

}  // namespace
}  // namespace headwise::roles_test
