// Sums of more windows than a block holds: in blocks, interrupted, in parts.
#include "headwise/heads/profile/window_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "headwise/base/mapped_file.h"
#include "headwise/base/rng.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/model/checkpoint.h"

namespace headwise::window_blocks_test {
namespace {

using testing::HasSubstr;

class WindowBlocksTest : public ScratchFolderTest {
 protected:
  WindowBlocksTest()
      : model_(OpenModel(std::filesystem::path(HEADWISE_SOURCE) /
                         "tests/conformance/goldens/gpt2")),
        context_({.threads = 2, .implementations = ""}) {}

  // Of different lengths, so that batches do not fit blocks by themselves, and
  // long enough that a block takes two.
  std::vector<TokenWindow> Windows(size_t count) const {
    Rng rng(9);
    std::vector<TokenWindow> windows;
    for (size_t n = 0; n < count; ++n) {
      std::vector<int32_t> ids(30 + rng.Below(11));
      for (int32_t& id : ids) id = static_cast<int32_t>(3 + rng.Below(50));
      windows.push_back(WindowOfIds(std::move(ids)));
    }
    return windows;
  }

  static ProfileOptions Options() {
    ProfileOptions options;
    options.repeats = 0;
    return options;
  }

  Profiler Make(Context& context, ProfileOptions options) const {
    return {context, *model_, nullptr, "gpt2", "hash", std::move(options)};
  }

  Profile Run(std::vector<TokenWindow> windows) {
    Profiler profiler = Make(context_, Options());
    EXPECT_TRUE(profiler.AddWindows(std::move(windows)));
    return profiler.Take();
  }

  // Two blocks and a part of the third, run once.
  static constexpr size_t kWindows = 150;
  const Profile& Whole() {
    static const Profile whole = Run(Windows(kWindows));
    return whole;
  }

  std::unique_ptr<Model> model_;
  Context context_;
};

// As a finished profile is written.
std::string BytesOf(Profile profile, const std::filesystem::path& path) {
  profile.blocks.reset();
  profile.Save(path);
  return std::string(MappedFile(path).text());
}

// What is rare is rare in one corpus, and so not the same in a part.
Profile WithoutRare(Profile profile) {
  std::erase_if(profile.metrics, [](const auto& metric) {
    return metric.first.starts_with("rare");
  });
  return profile;
}

void ExpectNear(double a, double b, const std::string& what) {
  EXPECT_NEAR(a, b, 1e-12 * std::max(1.0, std::abs(b))) << what;
}

// Two sums of the same windows, in whatever order.
void ExpectNear(const Profile& a, const Profile& b) {
  EXPECT_EQ(a.counts.windows, b.counts.windows);
  ASSERT_EQ(a.metrics.size(), b.metrics.size());
  for (const auto& [name, tallies] : b.metrics) {
    for (size_t h = 0; h < tallies.size(); ++h) {
      const Tally& x = a.metrics.at(name)[h];
      const Tally& y = tallies[h];
      EXPECT_EQ(x.n, y.n) << name;
      ExpectNear(x.w, y.w, name);
      ExpectNear(x.x, y.x, name);
      ExpectNear(x.ww, y.ww, name);
      ExpectNear(x.wx, y.wx, name);
      ExpectNear(x.xx, y.xx, name);
    }
  }
  for (size_t h = 0; h < b.histograms.size(); ++h) {
    for (size_t c = 0; c < b.histograms[h].size(); ++c) {
      ExpectNear(a.histograms[h][c], b.histograms[h][c], "histogram");
    }
  }
}

// A metric and a histogram that grow by one window at a time.
TEST(WindowBlocks, AddsWholeBlocksInOrder) {
  Profile profile({{AttentionKind::kSelf, 0, 0}});
  std::vector<Tally>& tallies = profile.Tallies("entropy");
  profile.Tallies("repeats.entropy")[0].Add(3, 1);
  WindowBlocks blocks;
  Rng rng(5);
  Tally plain, whole, open;
  double plain_mass = 0;
  for (int i = 0; i < 200; ++i) {
    const double value = rng.Uniform(), weight = 1 + rng.Uniform();
    for (Tally* tally : {&plain, &open, &tallies[0]}) tally->Add(value, weight);
    plain_mass += value;
    profile.histograms[0][7] += value;
    ++profile.counts.windows;
    if (WindowBlocks::Room(profile) < kBlockWindows) continue;
    blocks.Close(profile);
    whole.Merge(open);
    open = {};
  }
  Tally total = whole;
  total.Merge(open);
  blocks.Total(profile);
  EXPECT_EQ(profile.metrics.at("entropy")[0], total);
  ExpectNear(total.x, plain.x, "x");
  ExpectNear(total.ww, plain.ww, "ww");
  ExpectNear(profile.histograms[0][7], plain_mass, "histogram");
  EXPECT_EQ(profile.metrics.at("repeats.entropy")[0].n, 1);  // once
  ASSERT_TRUE(profile.blocks);
  EXPECT_EQ(profile.blocks->open.metrics.at("entropy")[0], open);
  EXPECT_EQ(profile.blocks->whole.metrics.at("entropy")[0], whole);
}

TEST_F(WindowBlocksTest, AFewWindowsAreAPlainSum) {
  const Profile profile = Run(Windows(kBlockWindows - 1));
  ASSERT_TRUE(profile.blocks);
  EXPECT_TRUE(profile.blocks->whole.metrics.empty());
  for (const auto& [name, tallies] : profile.metrics) {
    if (!IsOfModel(name)) {
      EXPECT_EQ(profile.blocks->open.metrics.at(name), tallies) << name;
    }
  }
}

TEST_F(WindowBlocksTest, PartsCutAtABlockMergeToTheWhole) {
  const std::vector<TokenWindow> all = Windows(kWindows);
  const auto cut = all.begin() + kBlockWindows;
  Profile merged = Run({all.begin(), cut});
  merged.Merge(Run({cut, all.end()}));
  EXPECT_FALSE(merged.blocks);
  ExpectNear(WithoutRare(std::move(merged)), WithoutRare(Whole()));
}

TEST_F(WindowBlocksTest, ThreadsDoNotChangeABit) {
  const std::string two = BytesOf(Whole(), folder_ / "two");
  for (const int threads : {1, 3}) {
    Context context({.threads = threads, .implementations = ""});
    Profiler profiler = Make(context, Options());
    ASSERT_TRUE(profiler.AddWindows(Windows(kWindows)));
    EXPECT_EQ(BytesOf(profiler.Take(), folder_ / "other"), two) << threads;
  }
}

TEST_F(WindowBlocksTest, ResumesBitForBitWhereverItStopped) {
  const std::string whole = BytesOf(Whole(), folder_ / "whole");
  ProfileOptions options = Options();
  std::vector<std::filesystem::path> files;
  int64_t inside = 0;
  options.checkpoint_seconds = 0;
  options.checkpoint = [&](const Profile& profile) {
    inside += profile.counts.windows % kBlockWindows != 0 ? 1 : 0;
    files.push_back(folder_ / std::to_string(profile.counts.windows));
    profile.Save(files.back());
  };
  Profiler profiler = Make(context_, options);
  ASSERT_TRUE(profiler.AddWindows(Windows(kWindows)));
  EXPECT_EQ(BytesOf(profiler.Take(), folder_ / "saved"), whole);
  ASSERT_GT(files.size(), 4u);
  ASSERT_GT(inside, 2);
  for (const auto& file : files) {
    Profiler resumed = Make(context_, Options());
    resumed.Resume(Profile::Load(file));
    ASSERT_TRUE(resumed.AddWindows(Windows(kWindows)));
    EXPECT_EQ(BytesOf(resumed.Take(), folder_ / "resumed"), whole) << file;
  }
}

// Of one that does not tell its open block nobody could say the next bits.
TEST_F(WindowBlocksTest, AProfileWithoutBlocksDoesNotGoOn) {
  Profile old = Run(Windows(70));
  old.blocks.reset();
  Profiler profiler = Make(context_, Options());
  try {
    profiler.Resume(std::move(old));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("earlier version"));
  }
}

}  // namespace
}  // namespace headwise::window_blocks_test
