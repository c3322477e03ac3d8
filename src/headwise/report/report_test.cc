// Whole reports of the planted model: from a text, from a profile alone, and
// from profiles that are not what they say.
#include "headwise/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "headwise/base/json.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/model.h"
#include "headwise/profile.h"

namespace headwise::report_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ReportTest : public ScratchFolderTest {
 protected:
  static std::filesystem::path Planted() {
    return std::filesystem::path(HEADWISE_SOURCE) / "assets" / "planted";
  }

  // The planted model without its tokenizer.
  std::filesystem::path Mute() {
    const auto mute = folder_ / "mute";
    std::filesystem::create_directory(mute);
    for (const char* file : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(Planted() / file, mute / file);
    }
    return mute;
  }

  // Of ids, as of a model that has no tokenizer.
  std::string ProfileOf(Transformer& model) {
    std::vector<std::vector<int32_t>> rows(3);
    for (int32_t w = 0; w < 3; ++w) {
      for (int32_t i = 0; i < 40; ++i) {
        rows[w].push_back(10 + (7 * i + w) % 60);
      }
    }
    const auto path = folder_ / "mute.heads";
    MakeProfile(model, {.ids = rows}).Save(path);
    return path.string();
  }

  TextInput ShortText() {
    const auto text = folder_ / "text.txt";
    std::ofstream(text) << "The old house stood at the end of a lane by her "
                           "garden. The garden of the house was old.";
    return TextInput::Files({text.string()});
  }

  static std::string MessageOf(Transformer& model, const TextInput& text,
                               const ReportJob& job) {
    try {
      MakeReport(model, text, job);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(ReportTest, CardsSayWhatHeadsDoInTheRunAndWhereTheyRest) {
  Transformer model(Planted(), {.threads = 2});
  const Json report = ParseJson(
      MakeReport(model, ShortText(),
                 {.skip = {ReportPart::kImportance, ReportPart::kSimilarity,
                           ReportPart::kComposition}})
          .json,
      "report");
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

// Nothing of the folder is read again; what is worth a notice is told once.
TEST_F(ReportTest, UsesTheModelThatIsOpen) {
  const auto copy = folder_ / "copy";
  std::filesystem::copy(Planted(), copy);
  std::vector<std::string> notices;
  OpenOptions options{.threads = 2};
  options.on_notice = [&](std::string_view one) { notices.emplace_back(one); };
  Transformer model(copy, options);
  ASSERT_TRUE(model.has_tokenizer());  // reads its file
  std::filesystem::remove_all(copy);
  const auto text = folder_ / "text.txt";
  std::ofstream(text) << "Дом стоял в конце улицы. Дом был старый, и сад "
                         "вокруг дома был старый. Дом стоял в саду.";
  const Report report = MakeReport(model, TextInput::Files({text.string()}));
  EXPECT_THAT(report.json, HasSubstr("\"importance\""));
  EXPECT_THAT(SummaryText(report, 60), HasSubstr("layer 1"));
  EXPECT_EQ(notices.size(), 1u);
}

TEST_F(ReportTest, AProfileAloneNeedsNoTokenizer) {
  Transformer model(Mute(), {.threads = 2});
  const ReportJob job{.profile = ProfileOf(model)};
  const Json report = ParseJson(MakeReport(model, {}, job).json, "report");
  EXPECT_EQ(report["heads"].size(), 16u);
  EXPECT_EQ(report["heads"][0]["roles"][0]["name"], "previous-token");
  EXPECT_FALSE(report["heads"][0]["examples"].empty());
  EXPECT_THAT(MessageOf(model, ShortText(), job), HasSubstr("a tokenizer"));
}

TEST_F(ReportTest, ProfilesWithOtherHeadsAreRefused) {
  Transformer model(Mute(), {.threads = 2});
  const ReportJob job{.profile = ProfileOf(model)};
  Profile profile = Profile::Load(*job.profile);
  profile.heads[15].layer = 60000;
  profile.Save(*job.profile);
  EXPECT_THAT(MessageOf(model, {}, job), HasSubstr("other heads"));
}

}  // namespace
}  // namespace headwise::report_test
