// Whole reports of the planted model: from a text, from a profile alone, and
// from profiles that are not what they say.
#include "headwise/report/make_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/model_hash.h"

namespace headwise::make_report_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class MakeReportTest : public ScratchFolderTest {
 protected:
  MakeReportTest()
      : planted_(std::filesystem::path(HEADWISE_SOURCE) / "assets" / "planted"),
        context_({.threads = 2, .implementations = ""}) {}

  // The planted model without its tokenizer.
  std::filesystem::path Mute() {
    const auto mute = folder_ / "mute";
    std::filesystem::create_directory(mute);
    for (const char* file : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(planted_ / file, mute / file);
    }
    return mute;
  }

  // A profile of ids, as of a model that has no tokenizer.
  std::string ProfileOf(const std::filesystem::path& model) {
    const auto opened = OpenModel(model);
    Profiler profiler(context_, *opened, nullptr, "mute", ModelHash(model), {});
    profiler.AddProbes();
    std::vector<TokenWindow> windows;
    for (int32_t w = 0; w < 3; ++w) {
      std::vector<int32_t> ids;
      for (int32_t i = 0; i < 40; ++i) ids.push_back(10 + (7 * i + w) % 60);
      windows.push_back(WindowOfIds(ids));
      SetKey(windows.back());
    }
    EXPECT_TRUE(profiler.AddWindows(windows));
    const auto path = folder_ / "mute.heads";
    profiler.Take().Save(path);
    return path.string();
  }

  std::string MessageOf(const std::filesystem::path& model,
                        const ReportOptions& options) {
    try {
      MakeReport(context_, model, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path planted_;
  Context context_;
};

TEST_F(MakeReportTest, CardsSayWhatHeadsDoInTheRunAndWhereTheyRest) {
  const auto text = folder_ / "text.txt";
  std::ofstream(text) << "The old house stood at the end of a lane by her "
                         "garden. The garden of the house was old.";
  ReportOptions options;
  options.texts = {text.string()};
  options.skip = {"importance", "similarity", "composition"};
  const auto report = MakeReport(context_, planted_, options);
  const auto& copier = report["heads"][8];
  EXPECT_EQ(copier["id"], "1.0");
  EXPECT_THAT(copier["content"]["says"].get<std::string>(),
              StartsWith("It copies: "));
  EXPECT_GT(copier["content"]["copying_run"]["mean"].get<double>(), 1);
  // What rests on the first token is told once, by its metric.
  const auto& resting = report["heads"][3];
  EXPECT_GT(resting["metrics"]["first"]["mean"].get<double>(), .6);
  for (const auto& key : resting["top_keys"]) {
    EXPECT_LT(key["share"].get<double>(), .4) << key["token"];
    EXPECT_THAT(key["token"].get<std::string>(), Not(HasSubstr("<")));
  }
  EXPECT_EQ(report["top_keys_on"]["tokens"], 128);
  EXPECT_EQ(report["top_keys_on"]["sequences"], 1);
}

TEST_F(MakeReportTest, AProfileAloneNeedsNoTokenizer) {
  const auto mute = Mute();
  ReportOptions options;
  options.profile = ProfileOf(mute);
  const auto report = MakeReport(context_, mute, options);
  EXPECT_EQ(report["heads"].size(), 16u);
  EXPECT_EQ(report["heads"][0]["roles"][0]["name"], "previous-token");
  EXPECT_FALSE(report["heads"][0]["examples"].empty());
  options.texts = {(planted_ / "vocabulary.txt").string()};
  EXPECT_THAT(MessageOf(mute, options), HasSubstr("a tokenizer"));
}

TEST_F(MakeReportTest, ProfilesWithOtherHeadsAreRefused) {
  const auto mute = Mute();
  ReportOptions options;
  options.profile = ProfileOf(mute);
  Profile profile = Profile::Load(options.profile);
  profile.heads[15].layer = 60000;
  profile.Save(options.profile);
  EXPECT_THAT(MessageOf(mute, options), HasSubstr("other heads"));
}

}  // namespace
}  // namespace headwise::make_report_test
