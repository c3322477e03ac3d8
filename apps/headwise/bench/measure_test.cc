#include "bench/measure.h"

#include <gmock/gmock.h>

#include <chrono>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

namespace headwise::bench {
namespace {

// A candidate whose calls take a fixed pretended time and leave their name.
Candidate Pretend(const std::string& name, double seconds, std::string* log) {
  Candidate candidate;
  candidate.row.impl = name;
  candidate.flops = 2e9;
  candidate.time = [=](int calls) {
    for (int i = 0; i < calls; ++i) *log += name;
    return seconds * calls;
  };
  return candidate;
}

TEST(Measure, RoundsInterleaveAndNobodyKeepsANeighbour) {
  std::string log;
  std::vector<Candidate> candidates = {Pretend("a", 0.1, &log),
                                       Pretend("b", 0.2, &log),
                                       Pretend("c", 0.4, &log)};
  Measure({.budget_seconds = 2, .min_rounds = 4, .max_rounds = 4}, candidates);
  // Two warm-up calls each, then four rounds of one call each.
  EXPECT_EQ(log,
            "aabbcc"
            "abc"
            "bca"
            "bac"
            "acb");
  EXPECT_DOUBLE_EQ(candidates[1].row.ms, 200);
  EXPECT_DOUBLE_EQ(candidates[1].row.gflops, 10);
  EXPECT_DOUBLE_EQ(candidates[1].row.spread, 0);
}

TEST(Measure, ShortCallsAreRepeatedUntilASampleIsLongEnough) {
  std::string log;
  std::vector<Candidate> candidates = {Pretend("a", 0.001, &log)};
  Measure({.sample_seconds = 0.01, .min_rounds = 1, .max_rounds = 1},
          candidates);
  EXPECT_EQ(log.size(), 2u + 1u + 10u);  // warm-up, caches, sample
  EXPECT_NEAR(candidates[0].row.ms, 1, 1e-9);
}

TEST(Measure, SlowCandidatesRunOnce) {
  std::string log;
  std::vector<Candidate> candidates = {Pretend("s", 100, &log),
                                       Pretend("f", 0.1, &log)};
  Measure({.budget_seconds = 1, .min_rounds = 2, .max_rounds = 2}, candidates);
  EXPECT_EQ(log,
            "sff"
            "ff");
  EXPECT_DOUBLE_EQ(candidates[0].row.ms, 100e3);
}

TEST(Measure, AKnownLongCallIsNotMadeAgain) {
  std::string log;
  std::vector<Candidate> candidates = {Pretend("s", 100, &log)};
  candidates[0].first_seconds = 50;
  Measure({.budget_seconds = 1}, candidates);
  EXPECT_EQ(log, "");
  EXPECT_DOUBLE_EQ(candidates[0].row.ms, 50e3);
}

TEST(Measure, TimedCallsAsOftenAsAsked) {
  int calls = 0;
  const auto time = Timed([&] { ++calls; });
  EXPECT_GE(time(3), 0);
  EXPECT_EQ(calls, 3);
}

TEST(LoadWatch, OwnWorkIsNotOthers) {
  const LoadWatch watch;
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t own_begin = std::clock();
  std::chrono::duration<double> wall{};
  while (wall < std::chrono::milliseconds(400)) {
    wall = std::chrono::steady_clock::now() - begin;
  }
  const double own =
      1.0 * (std::clock() - own_begin) / CLOCKS_PER_SEC / wall.count();
  const std::optional<double> others = watch.OthersCores();
  if (!others) GTEST_SKIP() << "the system does not tell";
  // However busy the machine is, our part of it is not others'. The system
  // counts in hundredths of a second.
  EXPECT_LE(*others, std::thread::hardware_concurrency() - own + 0.15);
}

TEST(Measure, ResidentGrowthSeesTouchedMemory) {
  constexpr int64_t kBytes = 64 << 20;
  const auto growth = ResidentGrowth([] {
    std::vector<char> memory(kBytes, 1);
    volatile char sink = memory[kBytes / 2];
    (void)sink;
  });
  if (!growth) GTEST_SKIP() << "the system does not tell";
  EXPECT_GE(*growth, kBytes * 9 / 10);
}

}  // namespace
}  // namespace headwise::bench
