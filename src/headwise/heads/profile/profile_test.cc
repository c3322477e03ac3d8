#include "headwise/heads/profile/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/heads/profile/metrics.h"

namespace headwise::profile_test {
namespace {

using testing::HasSubstr;

Profile Small(double seed) {
  Profile profile({{AttentionKind::kSelf, 0, 0}, {AttentionKind::kSelf, 0, 1}});
  profile.model = "small";
  profile.model_hash = "0123";
  profile.settings.context = 64;
  profile.counts = {1, 2, 128, 77};
  profile.Tallies("previous")[0].Add(seed, 10);
  profile.Tallies("previous")[1].Add(2 * seed, 10);
  profile.Tallies("repeats.induction")[0].Add(5, 10);
  profile.baselines["coreference.nearest"].Add(seed, 4);
  profile.histograms[1][20] = seed;
  profile.sinks[0]["."] = 3;
  Example example;
  example.kind = "sample";
  example.hash = ~uint64_t{0} - static_cast<uint64_t>(seed);
  example.tokens = {"The", " cat\xc3"};
  example.keys = {{0, "The", .5}};
  profile.examples[1].push_back(example);
  return profile;
}

template <typename Call>
std::string MessageOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

using ProfileTest = ScratchFolderTest;

TEST_F(ProfileTest, FileKeepsEverything) {
  const auto path = folder_ / "kept.heads";
  const Profile profile = Small(3);
  profile.Save(path);
  const Profile loaded = Profile::Load(path);
  EXPECT_EQ(loaded.model, "small");
  EXPECT_EQ(loaded.model_hash, "0123");
  EXPECT_EQ(loaded.settings, profile.settings);
  EXPECT_EQ(loaded.counts, profile.counts);
  EXPECT_EQ(loaded.heads, profile.heads);
  EXPECT_EQ(loaded.metrics, profile.metrics);
  EXPECT_EQ(loaded.baselines, profile.baselines);
  EXPECT_EQ(loaded.histograms, profile.histograms);
  EXPECT_EQ(loaded.sinks, profile.sinks);
  ASSERT_EQ(loaded.examples[1].size(), 1);
  EXPECT_EQ(loaded.examples[1][0].hash, profile.examples[1][0].hash);
  EXPECT_EQ(loaded.examples[1][0].keys[0].mass, .5);
}

TEST_F(ProfileTest, MergeAddsTextAndKeepsTheModel) {
  Profile a = Small(1), b = Small(2);
  a.Merge(b);
  EXPECT_EQ(a.counts.tokens, 256);
  EXPECT_DOUBLE_EQ(a.Get("previous", 0).mean, 3.0 / 20);
  EXPECT_EQ(a.Get("repeats.induction", 0).sequences, 1)
      << "what the model alone gives is not counted twice";
  EXPECT_EQ(a.sinks[0]["."], 6);
  EXPECT_EQ(a.baselines["coreference.nearest"].w, 8);
  EXPECT_EQ(a.examples[1].size(), 2);
}

TEST_F(ProfileTest, MergeRefusesOtherModelsAndSettings) {
  Profile a = Small(1), b = Small(2);
  b.model_hash = "4567";
  EXPECT_THAT(MessageOf([&] { a.Merge(b); }), HasSubstr("4567"));
  b = Small(2);
  b.settings.min_visible = 2;
  EXPECT_THAT(MessageOf([&] { a.Merge(b); }), HasSubstr("`min_visible`"));
}

TEST_F(ProfileTest, TruncatedAndForeignFilesAreNamed) {
  const auto path = folder_ / "whole.heads";
  Small(1).Save(path);
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (const size_t size :
       {size_t{0}, size_t{5}, bytes.size() / 2, bytes.size() - 1}) {
    const auto cut = folder_ / "cut.heads";
    std::ofstream(cut, std::ios::binary) << bytes.substr(0, size);
    EXPECT_THAT(MessageOf([&] { Profile::Load(cut); }), HasSubstr("cut.heads"));
  }
  const auto foreign = folder_ / "foreign.safetensors";
  const Tensor tensor(DType::kF32, {2});
  WriteSafetensors(foreign, {{"x", tensor.view()}});
  EXPECT_THAT(MessageOf([&] { Profile::Load(foreign); }),
              HasSubstr("headwise.profile/1"));
}

TEST_F(ProfileTest, SettingsOfAWrongTypeAreNamed) {
  const auto path = folder_ / "lie.heads";
  Small(1).Save(path);
  const Safetensors file = Safetensors::Open(path);
  const Json good = Json::parse(file.metadata().at("profile"));
  for (const auto& [key, value] : std::map<std::string, Json>{
           {"metrics", 5}, {"sentences", "yes"}, {"context", "all"}}) {
    Json json = good;
    json["settings"][key] = value;
    std::vector<NamedTensor> tensors;
    for (const auto& [name, view] : file.tensors()) {
      tensors.push_back({name, view});
    }
    const auto lie = folder_ / "told.heads";
    WriteSafetensors(lie, tensors,
                     {{"format", Profile::kFormat}, {"profile", json.dump()}});
    EXPECT_THAT(MessageOf([&] { Profile::Load(lie); }), HasSubstr(key));
  }
}

TEST_F(ProfileTest, HeadsThatNoModelHasAreRefused) {
  const auto path = folder_ / "good.heads", lie = folder_ / "lie.heads";
  Small(1).Save(path);
  const Safetensors file = Safetensors::Open(path);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, view] : file.tensors()) {
    tensors.push_back({name, view});
  }
  const auto told = [&](const std::function<void(Json&)>& change) {
    Json json = ParseJson(file.metadata().at("profile"), "profile");
    change(json["heads"]);
    WriteSafetensors(lie, tensors,
                     {{"format", Profile::kFormat}, {"profile", json.dump()}});
    return MessageOf([&] { Profile::Load(lie); });
  };
  EXPECT_THAT(told([](Json& heads) { heads[0]["layer"] = int64_t{1} << 62; }),
              HasSubstr("heads: 0: layer"));
  EXPECT_THAT(told([](Json& heads) { heads[1]["head"] = 1 << 16; }),
              HasSubstr("heads: 1: head"));
  EXPECT_THAT(told([](Json& heads) { heads[1]["head"] = 0; }),
              HasSubstr("each head once"));
  EXPECT_THAT(told([](Json& heads) { heads = Json::array(); }),
              HasSubstr("at least one head"));
}

TEST_F(ProfileTest, TalliesThatNothingAddsUpToAreRefused) {
  const auto path = folder_ / "lie.heads";
  for (double Tally::*part : {&Tally::n, &Tally::w, &Tally::ww, &Tally::xx}) {
    Profile profile = Small(1);
    profile.Tallies("previous")[1].*part = -1;
    profile.Save(path);
    EXPECT_THAT(MessageOf([&] { Profile::Load(path); }),
                HasSubstr("metric/previous"));
  }
  Profile profile = Small(1);
  profile.Tallies("previous")[0].n = 1e300;
  profile.Save(path);
  EXPECT_THAT(MessageOf([&] { Profile::Load(path); }),
              HasSubstr("metric/previous"));
}

TEST_F(ProfileTest, ExamplesKeepTheBestOfEachKind) {
  std::vector<Example> examples;
  for (uint64_t i = 0; i < 10; ++i) {
    Example example;
    example.kind = i % 2 == 0 ? "sample" : "strongest";
    example.score = i % 2 == 0 ? 0 : static_cast<double>(i);
    example.hash = 100 - i;
    examples.push_back(example);
  }
  TrimExamples(examples);
  ASSERT_EQ(examples.size(), 2 * kExamplesPerKind);
  EXPECT_EQ(examples[0].hash, 92) << "samples: the smallest hash first";
  EXPECT_EQ(examples[kExamplesPerKind].score, 9);
}

TEST(SlotNames, AreEachFormOfAMetricOnce) {
  const std::vector<std::string>& names = SlotNames();
  ASSERT_EQ(names.size(), size_t{kHeadSlots});
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(),
            names.size());
  EXPECT_EQ(names[kFirstSlots.of[MetricAt("broad")]], "broad");
  EXPECT_EQ(names[SlotsOf<MetricAt("last")>().content_argmax],
            "last.content.argmax");
  EXPECT_EQ(names[OffsetSlot(kOffsetContentChance, -1)],
            "previous.content.chance");
  for (const std::string& name : names) {
    EXPECT_NE(FindDefinition(name), nullptr) << name;
  }
}

TEST(BoundsOfTest, KnowsWhatAMetricCanBe) {
  for (const char* share : {"previous", "offset.-3.content", "syntactic.R.up.a",
                            "repeats.induction.chance", "pattern.mine"}) {
    EXPECT_EQ(BoundsOf(share), kShare) << share;
  }
  EXPECT_EQ(BoundsOf("entropy"), kNotNegative);
  EXPECT_EQ(BoundsOf("entropy.normalised"), kShare);
  EXPECT_EQ(BoundsOf("distance.argmax"), kNotNegative);
  EXPECT_EQ(BoundsOf("semantic.chance"), kShareDifference);
  EXPECT_EQ(BoundsOf("copying.vocabulary"), kShareDifference);
  EXPECT_EQ(BoundsOf("copying.run"), Bounds{});
}

TEST_F(ProfileTest, SharesStayInRange) {
  Profile profile({{AttentionKind::kSelf, 0, 0}});
  for (int i = 0; i < 12; ++i) {
    profile.Tallies("syntactic.nmod.up.b")[0].Add(i == 0 ? 4 : 5, 5);
  }
  const Estimate share = profile.Get("syntactic.nmod.up.b", 0);
  EXPECT_GT(share.high, share.mean);
  EXPECT_LT(share.high, 1);
}

TEST_F(ProfileTest, AbsentMetricsReadAsNothing) {
  const Profile profile = Small(1);
  EXPECT_EQ(profile.Find("syntactic.nsubj.up", 0), nullptr);
  EXPECT_EQ(profile.Get("syntactic.nsubj.up", 0).count, 0);
}

}  // namespace
}  // namespace headwise::profile_test
