// Parts in order, on any number of ranks, from wherever they were stopped.
#include "headwise/runtime/text_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "headwise/base/scratch_folder.h"
#include "headwise/base/stop.h"
#include "headwise/dist/thread_group.h"
#include "headwise/error.h"

namespace headwise::text_pass_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kParts = 7;

// A sum whose bits depend on the order: the parts' names one behind another.
struct Names {
  PassWork Work(SumOn sum_on = SumOn::kFirst) {
    PassWork work;
    work.stage = "names";
    work.sizes.assign(kParts, 2);
    work.sum_on = sum_on;
    work.add = [this](std::string_view message) { sum += message; };
    work.pack = [this] { return sum; };
    work.unpack = [this](std::string_view bytes) { sum = bytes; };
    work.open = [this] { return open; };
    return work;
  }
  std::string sum, open;
};

std::string NameOf(size_t part) { return "<" + std::to_string(part) + ">"; }

const std::string kWhole = "<0><1><2><3><4><5><6>";
const KeptKey kGiven = {"model", "text", "settings"};
KeptKey KeyOfTest() { return kGiven; }

class TextPassTest : public ScratchFolderTest {
 protected:
  PartialWork Keep(bool resume) const {
    return {
        .file = folder_ / "kept", .checkpoint_seconds = 0, .resume = resume};
  }
  std::string MessageOf(const KeptKey& key) const {
    try {
      KeptWork("names", Keep(true), [&] { return key; });
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  // Runs on so many ranks until `last` parts were begun, then is stopped; what
  // the first rank has in the end, and the parts that were begun.
  std::string RunUntil(size_t last, int ranks, bool resume,
                       std::vector<size_t>* begun = nullptr) const {
    std::string found;
    dist::RunRanks(ranks, [&](dist::Group& group) {
      std::optional<KeptWork> kept;
      if (group.is_first()) kept.emplace("names", Keep(resume), KeyOfTest);
      std::stop_source stop;
      PassOptions options;
      options.group = &group;
      options.kept = kept ? &*kept : nullptr;
      options.stop = stop.get_token();
      Names names;
      size_t count = 0;
      try {
        TextPass(options, names.Work()).Run([&](size_t part, std::string_view) {
          if (begun != nullptr) begun->push_back(part);
          if (++count == last) stop.request_stop();
          return NameOf(part);
        });
        if (kept) kept->Finish();
      } catch (const Error&) {
        EXPECT_THROW(kept->ThrowInterrupted(), Error);
      }
      if (group.is_first()) found = names.sum;
      if (last == 0) group.Leave();
    });
    return found;
  }
};

TEST_F(TextPassTest, AddsPartsInOrderOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 9}) {
    for (const SumOn sum_on : {SumOn::kFirst, SumOn::kAll}) {
      dist::RunRanks(ranks, [&](dist::Group& group) {
        PassOptions options;
        options.group = &group;
        Names names;
        TextPass(options, names.Work(sum_on))
            .Run([&](size_t part, std::string_view) {
              // Later parts come first.
              std::this_thread::sleep_for(
                  std::chrono::milliseconds(2 * (kParts - part)));
              return NameOf(part);
            });
        const bool has = group.is_first() || sum_on == SumOn::kAll;
        EXPECT_EQ(names.sum, has ? kWhole : "") << ranks;
        group.Leave();
      });
    }
  }
}

TEST_F(TextPassTest, PassesOfManyRanksDoNotMix) {
  dist::RunRanks(3, [](dist::Group& group) {
    PassOptions options;
    options.group = &group;
    for (int pass = 0; pass < 5; ++pass) {
      Names names;
      TextPass(options, names.Work()).Run([&](size_t part, std::string_view) {
        return NameOf(part) + std::to_string(pass);
      });
      if (!group.is_first()) continue;
      EXPECT_EQ(names.sum.size(), kParts * 4);
      EXPECT_EQ(names.sum.back(), '0' + pass);
    }
    group.Leave();
  });
}

TEST_F(TextPassTest, GoesOnWhereItWasStopped) {
  EXPECT_EQ(RunUntil(3, 1, false), "<0><1><2>");
  std::vector<size_t> begun;
  EXPECT_EQ(RunUntil(2, 1, true, &begun), "<0><1><2><3><4>");
  EXPECT_THAT(begun, ElementsAre(3, 4));
  EXPECT_EQ(RunUntil(0, 1, true), kWhole);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "kept"));
}

TEST_F(TextPassTest, GoesOnOnAnotherNumberOfRanks) {
  ASSERT_EQ(RunUntil(3, 1, false), "<0><1><2>");
  EXPECT_EQ(RunUntil(0, 3, true), kWhole);
}

TEST_F(TextPassTest, APartGoesOnWithWhatItHad) {
  Names names;
  {
    KeptWork kept("names", Keep(false), KeyOfTest);
    PassOptions options;
    options.kept = &kept;
    EXPECT_THROW(TextPass(options, names.Work())
                     .Run([&](size_t part, std::string_view) -> std::string {
                       if (part < 2) return NameOf(part);
                       names.open = "half";
                       ThrowStopped("names");
                     }),
                 Error);
    EXPECT_THROW(kept.ThrowInterrupted(), Error);
  }
  KeptWork kept("names", Keep(true), KeyOfTest);
  PassOptions options;
  options.kept = &kept;
  names = {};
  std::string given;
  TextPass(options, names.Work()).Run([&](size_t part, std::string_view begun) {
    given += std::string(begun) + ",";
    return NameOf(part);
  });
  EXPECT_EQ(given, "half,,,,,");
  EXPECT_EQ(names.sum, kWhole);
}

// Of parts that are found while they are read, one may end beside the next.
TEST_F(TextPassTest, WhatRanBesideIsGivenBeforeItIsKept) {
  const auto work_of = [](Names& names) {
    PassWork work = names.Work();
    work.sizes.clear();
    return work;
  };
  Names names;
  {
    KeptWork kept("names", Keep(false), KeyOfTest);
    PassOptions options;
    options.kept = &kept;
    TextPass* beside = nullptr;
    PassWork work = work_of(names);
    bool is_given = false;
    work.settle = [&] {
      if (!std::exchange(is_given, true)) beside->Give(0, NameOf(0));
    };
    TextPass pass(options, std::move(work));
    beside = &pass;
    EXPECT_EQ(pass.Begin(0), "");
    pass.Begin(1);
    names.open = "half";
    EXPECT_THROW(kept.ThrowInterrupted(), Error);
    EXPECT_EQ(names.sum, "<0>");
  }
  KeptWork kept("names", Keep(true), KeyOfTest);
  PassOptions options;
  options.kept = &kept;
  names = {};
  TextPass pass(options, work_of(names));
  EXPECT_FALSE(pass.Owns(0));
  EXPECT_EQ(names.sum, "<0>");
  EXPECT_EQ(pass.Begin(2), "");
  EXPECT_EQ(pass.Begin(1), "half");
}

TEST_F(TextPassTest, PassesOfOneNameAreToldApartByTheirOrder) {
  const auto run = [&](KeptWork& kept, size_t fails) {
    std::vector<std::string> sums;
    PassOptions options;
    options.kept = &kept;
    size_t parts = 0;
    for (int pass = 0; pass < 2; ++pass) {
      Names names;
      TextPass(options, names.Work())
          .Run([&](size_t, std::string_view) -> std::string {
            if (++parts == fails) ThrowStopped("names");
            return std::to_string(pass);
          });
      sums.push_back(names.sum);
    }
    return sums;
  };
  KeptWork first("names", Keep(false), KeyOfTest);
  EXPECT_THROW(run(first, kParts + 3), Error);
  EXPECT_THROW(first.ThrowInterrupted(), Error);
  KeptWork second("names", Keep(true), KeyOfTest);
  EXPECT_THAT(run(second, 0), ElementsAre("0000000", "1111111"));
}

TEST_F(TextPassTest, ChecksPointsWhileItRuns) {
  PartialWork job = Keep(false);
  job.checkpoint_seconds = 1e-9;
  KeptWork kept("names", job, KeyOfTest);
  PassOptions options;
  options.kept = &kept;
  Names names;
  TextPass(options, names.Work()).Run([&](size_t part, std::string_view) {
    EXPECT_EQ(std::filesystem::exists(*job.file), part > 0);
    return NameOf(part);
  });
  kept.Finish();
  EXPECT_FALSE(std::filesystem::exists(*job.file));
}

TEST_F(TextPassTest, OtherWorkIsRefusedByName) {
  RunUntil(3, 1, false);
  EXPECT_EQ(MessageOf(kGiven), "");
  EXPECT_THAT(MessageOf({"other", "text", "settings"}),
              HasSubstr("another model"));
  EXPECT_THAT(MessageOf({"model", "other", "settings"}),
              HasSubstr("another text"));
  EXPECT_THAT(MessageOf({"model", "text", "other"}),
              HasSubstr("other settings"));
}

TEST_F(TextPassTest, OtherFilesAreRefusedByName) {
  RunUntil(3, 1, false);
  std::ifstream in(folder_ / "kept", std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  const auto message = [&](const std::string& bytes) {
    std::ofstream(folder_ / "kept", std::ios::binary) << bytes;
    return MessageOf(kGiven);
  };
  EXPECT_EQ(message(good), "");
  std::string bad = good;
  bad[bad.size() / 2] ^= 1;
  EXPECT_THAT(message(bad), HasSubstr("something else"));
  EXPECT_THAT(message(good.substr(0, good.size() - 1)),
              HasSubstr("something else"));
  EXPECT_THAT(message(good.substr(0, 18)), HasSubstr("something else"));
  EXPECT_THAT(message(R"(........{"format":"headwise.losses/1"})"),
              HasSubstr("an earlier version"));
  std::filesystem::remove(folder_ / "kept");
  EXPECT_THAT(MessageOf(kGiven), HasSubstr("interrupted work; found none"));
}

TEST(TextPass, TellsHowMuchIsDone) {
  std::vector<double> told;
  PassOptions options;
  options.progress = [&](std::string_view stage, double done, double total) {
    EXPECT_EQ(stage, "names");
    EXPECT_EQ(total, 14);
    told.push_back(done);
  };
  Names names;
  TextPass pass(options, names.Work());
  pass.Run([&](size_t part, std::string_view) {
    pass.Tell(.5);
    return NameOf(part);
  });
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_THAT(told, testing::IsSupersetOf({0., 1., 2., 7., 14.}));
}

TEST(TextPass, TakesPartsThatAreFoundWhileTheyAreRead) {
  Names names;
  PassWork work = names.Work();
  work.sizes.clear();
  std::vector<double> told;
  PassOptions options;
  options.progress = [&](std::string_view, double done, double total) {
    told.insert(told.end(), {done, total});
  };
  TextPass pass(options, std::move(work));
  pass.Tell(3, 9);
  EXPECT_THAT(told, ElementsAre(3, 9));
  for (const size_t part : {1, 2, 0}) pass.Give(part, NameOf(part));
  EXPECT_FALSE(pass.Owns(2));
  EXPECT_TRUE(pass.Owns(3));
  pass.Finish(3);
  EXPECT_EQ(names.sum, "<0><1><2>");
}

TEST(CutByRoom, EndsAPartWithWhatReachesTheMost) {
  const std::vector<int64_t> sizes = {3, 3, 9, 1, 1, 1};
  const auto cut = [&](int64_t most) {
    return CutByRoom(sizes.size(), most, [&](size_t i) { return sizes[i]; });
  };
  EXPECT_THAT(cut(1), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(cut(6), ElementsAre(2, 3, 6));
  EXPECT_THAT(cut(100), ElementsAre(6));
  EXPECT_TRUE(CutByRoom(0, 5, {}).empty());
}

}  // namespace
}  // namespace headwise::text_pass_test
