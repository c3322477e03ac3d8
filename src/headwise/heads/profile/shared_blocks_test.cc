// Profiles by ranks are those of one process, bit for bit.
#include "headwise/heads/profile/shared_blocks.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "headwise/base/mapped_file.h"
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
      : model_(OpenModel(std::filesystem::path(HEADWISE_SOURCE) /
                         "tests/conformance/goldens/gpt2")) {}

  // Of different lengths, so that batches do not fit blocks by themselves, and
  // long enough that a block takes two.
  static std::vector<TokenWindow> Windows(size_t count) {
    Rng rng(11);
    std::vector<TokenWindow> windows;
    for (size_t n = 0; n < count; ++n) {
      std::vector<int32_t> ids(30 + rng.Below(11));
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
      Profiler profiler(context, *model_, nullptr, "gpt2", "hash", options);
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

  // Three blocks and a part of the fourth.
  static constexpr size_t kWindows = 200;

  // By one process, which is run once.
  const std::string& Whole() {
    static const std::string whole = BytesOf(Run(1, kWindows, {}));
    return whole;
  }

  // What one process leaves on its way.
  const std::vector<Profile>& Checkpoints() {
    static const std::vector<Profile> saved = [&] {
      std::vector<Profile> made;
      Run(1, kWindows, {}, [&](const Profile& p) { made.push_back(p); });
      return made;
    }();
    return saved;
  }

  // As a finished profile is written.
  std::string BytesOf(Profile profile) const {
    profile.blocks.reset();
    profile.Save(folder_ / "profile");
    return std::string(MappedFile(folder_ / "profile").text());
  }

  std::unique_ptr<Model> model_;
};

TEST_F(SharedBlocksTest, AreTheSameOnAnyNumberOfRanks) {
  for (const size_t windows : {size_t{1}, size_t{64}, kWindows}) {
    const std::string one =
        windows == kWindows ? Whole() : BytesOf(Run(1, windows, {}));
    for (const int ranks : {2, 3, 7}) {
      EXPECT_EQ(BytesOf(Run(ranks, windows, {})), one)
          << windows << " windows, " << ranks << " ranks";
    }
  }
}

TEST_F(SharedBlocksTest, GoOnFromAnyCheckpointOnAnyNumberOfRanks) {
  for (const int before : {1, 3}) {
    std::vector<Profile> saved;
    if (before == 1) {
      saved = Checkpoints();
    } else {
      Run(before, kWindows, {},
          [&](const Profile& profile) { saved.push_back(profile); });
    }
    ASSERT_GT(saved.size(), 1u);
    for (const size_t at : {saved.size() / 2, saved.size() - 1}) {
      for (const int after : {1, 2}) {
        EXPECT_EQ(BytesOf(Run(after, kWindows, saved[at])), Whole())
            << before << " ranks, then " << after << ", from window "
            << saved[at].counts.windows;
      }
    }
  }
}

TEST_F(SharedBlocksTest, SaveCheckpointsThatCheckpointsGoOnFrom) {
  // One process stops within a block; two ranks go on and are stopped too.
  std::vector<Profile> second;
  const Profile* open = nullptr;
  for (const Profile& profile : Checkpoints()) {
    if (profile.counts.windows % kBlockWindows != 0) open = &profile;
    if (open != nullptr && open->counts.windows > kBlockWindows) break;
  }
  ASSERT_NE(open, nullptr);
  Run(2, kWindows, *open, [&](const Profile& p) { second.push_back(p); });
  ASSERT_FALSE(second.empty());
  EXPECT_EQ(BytesOf(Run(3, kWindows, second.front())), Whole());
}

}  // namespace
}  // namespace headwise::shared_blocks_test
