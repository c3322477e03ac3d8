// Profiles of more windows than a part holds: by threads, by ranks, in pieces,
// and from wherever they were interrupted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <vector>

#include "headwise/base/mapped_file.h"
#include "headwise/base/rng.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/dist/thread_group.h"
#include "headwise/error.h"
#include "headwise/heads/profile/profile_part.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/model/checkpoint.h"
#include "headwise/runtime/kept_work.h"

namespace headwise::profiler_parts_test {
namespace {

namespace fs = std::filesystem;

class ProfilerPartsTest : public ScratchFolderTest {
 protected:
  ProfilerPartsTest()
      : model_(OpenModel(fs::path(HEADWISE_SOURCE) /
                         "tests/conformance/goldens/gpt2")) {}

  // Of different lengths, so that batches do not fit parts by themselves, and
  // long enough that a part takes two.
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

  Profile RunOn(Context& context, const ProfileOptions& options,
                std::vector<TokenWindow> windows) const {
    Profiler profiler(context, *model_, nullptr, "gpt2", "hash", options);
    profiler.AddProbes();
    profiler.AddWindows(std::move(windows));
    return profiler.Take();
  }
  Profile RunOn(std::vector<TokenWindow> windows, int threads = 2) const {
    Context context({.threads = threads, .implementations = ""});
    return RunOn(context, Options(), std::move(windows));
  }

  static ProfileOptions Options() {
    ProfileOptions options;
    options.repeats = 0;
    return options;
  }

  // What ranks come to; kept, of the first, may be null. Stops after so many
  // tokens.
  std::optional<Profile> RunOnRanks(int ranks, size_t windows, KeptWork* kept,
                                    double most) const {
    std::optional<Profile> result;
    dist::RunRanks(ranks, [&](dist::Group& group) {
      Context context({.threads = 1, .implementations = ""});
      ProfileOptions options = Options();
      options.group = &group;
      if (group.is_first()) options.kept = kept;
      std::stop_source stop;
      options.stop = stop.get_token();
      options.on_progress = [&](std::string_view, double done, double) {
        if (done > most) stop.request_stop();
      };
      try {
        Profile profile = RunOn(context, options, Windows(windows));
        if (group.is_first()) result = std::move(profile);
        group.Leave();
      } catch (const Error&) {
        if (!stop.stop_requested()) throw;
      }
    });
    return result;
  }
  static constexpr double kAll = 1e9;

  // A run that is stopped after so many tokens, and the work that is kept.
  void Interrupt(int ranks, double most, bool resume) const {
    KeptWork kept("profile", {.file = folder_ / "kept", .resume = resume}, Key);
    EXPECT_FALSE(RunOnRanks(ranks, kWindows, &kept, most)) << most;
    EXPECT_THROW(kept.ThrowInterrupted(), Error);
  }
  std::string GoOn(int ranks) const {
    KeptWork kept("profile", {.file = folder_ / "kept", .resume = true}, Key);
    return BytesOf(*RunOnRanks(ranks, kWindows, &kept, kAll));
  }
  static KeptKey Key() { return {"model", "", ""}; }

  // Three parts and a piece of the fourth.
  static constexpr size_t kWindows = 200;

  // By one process, which is run once.
  const Profile& Whole() const {
    static const Profile whole = RunOn(Windows(kWindows));
    return whole;
  }

  std::string BytesOf(const Profile& profile) const {
    profile.Save(folder_ / "profile");
    return std::string(MappedFile(folder_ / "profile").text());
  }

  std::unique_ptr<Model> model_;
};

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

TEST(ProfilePart, MessagesAddUpToTheWhole) {
  const std::vector<HeadRef> heads = {{AttentionKind::kSelf, 0, 0}};
  Profile part(heads), sum(heads);
  Tally whole, open;
  double mass = 0;
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    const double value = rng.Uniform(), weight = 1 + rng.Uniform();
    open.Add(value, weight);
    part.Tallies("entropy")[0].Add(value, weight);
    part.Tallies("nothing");
    part.histograms[0][7] += value;
    mass += value;
    ++part.sinks[0]["the"];
    part.counts.tokens += 3;
    Example example;
    example.kind = "sample";
    example.hash = rng.Below(1000);
    example.tokens = {"a", "cat"};
    example.keys = {{0, "a", .5}};
    part.examples[0].push_back(example);
    if (i % 64 != 63 && i != 199) continue;
    AddPacked(Packed(part, WithExamples::kYes), sum);
    Clear(part);
    whole.Merge(open);
    open = {};
  }
  EXPECT_EQ(sum.metrics.at("entropy")[0], whole);
  EXPECT_FALSE(sum.metrics.contains("nothing"));
  ExpectNear(sum.histograms[0][7], mass, "histogram");
  EXPECT_EQ(sum.sinks[0].at("the"), 200);
  EXPECT_EQ(sum.counts.tokens, 600);
  TrimExamples(part.examples[0]);  // those of all parts
  ASSERT_EQ(sum.examples[0].size(), kExamplesPerKind);
  for (size_t e = 0; e < kExamplesPerKind; ++e) {
    EXPECT_EQ(sum.examples[0][e].hash, part.examples[0][e].hash);
    EXPECT_EQ(sum.examples[0][e].tokens, part.examples[0][e].tokens);
    EXPECT_EQ(sum.examples[0][e].keys[0].mass, .5);
  }
}

TEST_F(ProfilerPartsTest, PiecesCutAtAPartMergeToTheWhole) {
  const std::vector<TokenWindow> all = Windows(kWindows);
  const auto cut = all.begin() + kPartWindows;
  Profile merged = RunOn({all.begin(), cut});
  merged.Merge(RunOn({cut, all.end()}));
  ExpectNear(WithoutRare(std::move(merged)), WithoutRare(Whole()));
}

TEST_F(ProfilerPartsTest, ThreadsDoNotChangeABit) {
  const std::string two = BytesOf(Whole());
  for (const int threads : {1, 3}) {
    EXPECT_EQ(BytesOf(RunOn(Windows(kWindows), threads)), two) << threads;
  }
}

TEST_F(ProfilerPartsTest, RanksDoNotChangeABit) {
  for (const size_t windows : {size_t{1}, size_t{64}, kWindows}) {
    const std::string one =
        BytesOf(windows == kWindows ? Whole() : RunOn(Windows(windows)));
    for (const int ranks : {2, 3, 7}) {
      EXPECT_EQ(BytesOf(*RunOnRanks(ranks, windows, nullptr, kAll)), one)
          << windows << " windows, " << ranks << " ranks";
    }
  }
}

TEST_F(ProfilerPartsTest, ResumesBitForBitWhereverItStopped) {
  const std::string whole = BytesOf(Whole());
  const auto tokens = static_cast<double>(Whole().counts.tokens);
  for (const double share : {0., .1, .3, .4, .6, .9}) {
    Interrupt(1, share * tokens, false);
    EXPECT_EQ(GoOn(1), whole) << share;
  }
}

TEST_F(ProfilerPartsTest, GoesOnOnAnotherNumberOfRanks) {
  const std::string whole = BytesOf(Whole());
  const auto tokens = static_cast<double>(Whole().counts.tokens);
  // Stopped within a part, and once more by other ranks.
  Interrupt(1, .4 * tokens, false);
  Interrupt(2, .8 * tokens, true);
  EXPECT_EQ(GoOn(3), whole);
  Interrupt(3, .8 * tokens, false);
  EXPECT_EQ(GoOn(1), whole);
}

}  // namespace
}  // namespace headwise::profiler_parts_test
