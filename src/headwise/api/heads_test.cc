// What is found out about heads through the public door.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "headwise/api/test_model.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/compose.h"
#include "headwise/error.h"
#include "headwise/head_edit.h"
#include "headwise/head_ref.h"
#include "headwise/head_weights.h"
#include "headwise/model.h"
#include "headwise/patch.h"
#include "headwise/profile.h"
#include "headwise/rank.h"
#include "headwise/text_input.h"

namespace headwise::heads_test {
namespace {

using MakeProfileTest = ScratchFolderTest;

TEST_F(MakeProfileTest, ReadsTextAsItReadsFiles) {
  Transformer model = Novels();
  const std::string text = "The captain looked at the sea. It was the sea.\n";
  const std::filesystem::path file = folder_ / "a.txt";
  std::ofstream(file) << text;
  const ProfileJob job = {.repeats = 0};
  const Profile of_text = MakeProfile(model, TextInput::Of(text), job);
  const Profile of_file =
      MakeProfile(model, TextInput::Files({file.string()}), job);
  EXPECT_EQ(JsonText(of_text), JsonText(of_file));
  EXPECT_EQ(MetricMeans(of_text, "entropy").size(), of_text.heads.size());
  EXPECT_THROW(MetricMeans(of_text, "entropi"), Error);
  EXPECT_THROW(MergeProfiles(std::vector<Profile>{of_text, of_file}), Error);
}

TEST_F(MakeProfileTest, GoesOnWhereItWasStopped) {
  Transformer model = Planted();
  const TextInput text = ShortText(4096);
  const ProfileJob plain = {.repeats = 0};
  const Profile whole = MakeProfile(model, text, plain);
  std::stop_source stop;
  const std::filesystem::path kept = folder_ / "kept";
  ProfileJob job = plain;
  job.stop = stop.get_token();
  job.partial.file = kept;
  job.on_progress = [&](std::string_view stage, double done, double) {
    if (stage == "profile" && done > 0) stop.request_stop();
  };
  EXPECT_THROW(MakeProfile(model, text, job), Error);
  EXPECT_TRUE(std::filesystem::exists(kept));
  ProfileJob again = plain;
  again.partial = {.file = kept, .resume = true};
  again.on_progress = [](std::string_view stage, double, double) {
    EXPECT_EQ(stage, "profile");  // probes are kept too
  };
  EXPECT_EQ(JsonText(MakeProfile(model, text, again)), JsonText(whole));
  EXPECT_FALSE(std::filesystem::exists(kept));
}

TEST(MakeProfile, IsStoppedInRandomRepeats) {
  Transformer model = Novels();
  std::stop_source stop;
  ProfileJob job = {.repeats = 10000};
  double last = 0;
  job.stop = stop.get_token();
  job.on_progress = [&](std::string_view stage, double done, double total) {
    EXPECT_EQ(stage, "probe the model");
    last = done;
    if (total > 0 && done > 0) stop.request_stop();
  };
  try {
    MakeProfile(model, {}, job);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
  EXPECT_GT(last, 0);
  EXPECT_LT(last, 100);
}

TEST(Analyses, RefuseAModelUnderAnEdit) {
  Transformer model = Novels();
  const Intervention edit = model.Edit({.drop = {{}}});
  EXPECT_THROW(MakeProfile(model, ShortText()), Error);
  EXPECT_THROW(RankHeads(model, ShortText()), Error);
  EXPECT_THROW(ComposeHeads(model), Error);
}

TEST(WeightsOfHead, ProductsAreOfItsMatrices) {
  Transformer model = Novels();
  const HeadMatrices w = WeightsOfHead(model, {.layer = 1, .head = 2});
  const int64_t width = model.info().width;
  ASSERT_EQ(w.q.shape(0), width);
  ASSERT_EQ(w.qk.shape(0), width);
  ASSERT_EQ(w.ov.shape(1), width);
  double qk = 0, ov = 0;
  for (int64_t i = 0; i < w.q.shape(1); ++i) {
    qk += static_cast<double>(w.q.As<float>()[3 * w.q.shape(1) + i]) *
          static_cast<double>(w.k.As<float>()[5 * w.k.shape(1) + i]);
    ov += static_cast<double>(w.v.As<float>()[3 * w.v.shape(1) + i]) *
          static_cast<double>(w.o.As<float>()[i * width + 5]);
  }
  EXPECT_NEAR(w.qk.As<float>()[3 * width + 5], qk, 1e-5);
  EXPECT_NEAR(w.ov.As<float>()[3 * width + 5], ov, 1e-5);
  EXPECT_THROW(WeightsOfHead(model, {.layer = 99}), Error);
}

TEST(PatchHeads, TakesTexts) {
  Transformer model = Novels();
  const std::vector<PatchText> cases = {{.prompt = "The captain looked at the",
                                         .answer = " sea",
                                         .other = " man"}};
  const PatchResult result = PatchHeads(model, cases);
  EXPECT_EQ(result.cases, 1);
  EXPECT_NEAR(result.direct.Sum(), result.difference.value, 1e-3);
  EXPECT_THROW(PatchHeads(model, std::vector<PatchText>{{.prompt = "The",
                                                         .answer = " sea",
                                                         .other = " sea"}}),
               Error);
}

TEST(MeanOutputs, StandInForHeads) {
  Transformer model = Novels();
  const TextInput text = ShortText();
  const double whole = model.Loss(text).loss.value;
  const HeadMeans means = MeanOutputs(model, text);
  std::vector<HeadRef> all = HeadsOf(model);
  double zero = 0, mean = 0;
  {
    const Intervention edit = model.Edit({.drop = all});
    zero = model.Loss(text).loss.value;
  }
  {
    const Intervention edit = model.Edit({.drop = all, .means = means});
    mean = model.Loss(text).loss.value;
  }
  EXPECT_GT(zero, whole);
  EXPECT_GT(mean, whole);
  EXPECT_NE(zero, mean);
}

}  // namespace
}  // namespace headwise::heads_test
