// Profiles by ranks are those of one process, bit for bit.
#include "headwise/heads/profile/shared_blocks.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/dist/thread_group.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/model/checkpoint.h"

namespace headwise::shared_blocks_test {
namespace {

class SharedBlocksTest : public ScratchFolderTest {
 protected:
  SharedBlocksTest()
      : model_(OpenModel(std::filesystem::path(HEADWISE_SOURCE) / "assets" /
                         "planted")) {}

  // Of different lengths, so that batches do not fit blocks by themselves.
  static std::vector<TokenWindow> Windows(size_t count) {
    Rng rng(11);
    std::vector<TokenWindow> windows;
    for (size_t n = 0; n < count; ++n) {
      std::vector<int32_t> ids(20 + rng.Below(60));
      for (int32_t& id : ids) id = static_cast<int32_t>(3 + rng.Below(50));
      windows.push_back(WindowOfIds(std::move(ids)));
    }
    return windows;
  }

  // The profile of rank 0. begun: gone on with; checkpoint: called at each.
  Profile Run(int ranks, size_t windows, const std::optional<Profile>& begun,
              const std::function<void(const Profile&)>& checkpoint = {}) {
    std::optional<Profile> result;
    dist::RunRanks(ranks, [&](dist::Group& group) {
      Context context({.threads = 1, .implementations = ""});
      ProfileOptions options;
      options.repeats = 0;
      options.group = &group;
      options.checkpoint = checkpoint;
      options.checkpoint_seconds = 0;
      Profiler profiler(context, *model_, nullptr, "planted", "hash", options);
      if (begun) {
        profiler.Resume(*begun);
      } else {
        profiler.AddProbes();
      }
      EXPECT_TRUE(profiler.AddWindows(Windows(windows)));
      if (group.is_first()) result = profiler.Take();
      group.Leave();
    });
    return std::move(*result);
  }

  // As a finished profile is written.
  std::string BytesOf(Profile profile) const {
    profile.blocks.reset();
    profile.Save(folder_ / "profile");
    std::ifstream file(folder_ / "profile", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::unique_ptr<Model> model_;
};

TEST_F(SharedBlocksTest, AreTheSameOnAnyNumberOfRanks) {
  for (const size_t windows : {1, 64, 200}) {
    const std::string one = BytesOf(Run(1, windows, {}));
    for (const int ranks : {2, 3, 7}) {
      EXPECT_EQ(BytesOf(Run(ranks, windows, {})), one)
          << windows << " windows, " << ranks << " ranks";
    }
  }
}

TEST_F(SharedBlocksTest, GoOnFromAnyCheckpointOnAnyNumberOfRanks) {
  constexpr size_t kWindows = 200;
  const std::string whole = BytesOf(Run(1, kWindows, {}));
  for (const int before : {1, 3}) {
    std::vector<Profile> saved;
    Run(before, kWindows, {},
        [&](const Profile& profile) { saved.push_back(profile); });
    ASSERT_GT(saved.size(), 1u);
    for (const size_t at : {saved.size() / 2, saved.size() - 1}) {
      for (const int after : {1, 2}) {
        EXPECT_EQ(BytesOf(Run(after, kWindows, saved[at])), whole)
            << before << " ranks, then " << after << ", from window "
            << saved[at].counts.windows;
      }
    }
  }
}

TEST_F(SharedBlocksTest, SaveCheckpointsThatCheckpointsGoOnFrom) {
  constexpr size_t kWindows = 200;
  // One process stops within a block; two ranks go on and are stopped too.
  std::vector<Profile> first, second;
  Run(1, kWindows, {}, [&](const Profile& p) { first.push_back(p); });
  const Profile* open = nullptr;
  for (const Profile& profile : first) {
    if (profile.counts.windows % kBlockWindows != 0) open = &profile;
    if (open != nullptr && open->counts.windows > kBlockWindows) break;
  }
  ASSERT_NE(open, nullptr);
  Run(2, kWindows, *open, [&](const Profile& p) { second.push_back(p); });
  ASSERT_FALSE(second.empty());
  EXPECT_EQ(BytesOf(Run(3, kWindows, second.front())),
            BytesOf(Run(1, kWindows, {})));
}

}  // namespace
}  // namespace headwise::shared_blocks_test
