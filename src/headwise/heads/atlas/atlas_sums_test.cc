#include "headwise/heads/atlas/atlas_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "headwise/base/rng.h"

namespace headwise::atlas_sums_test {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

TEST(TokenWeights, AreTooSmallByNoMoreThanTheirBound) {
  constexpr uint64_t kSeed = 20261119;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  std::map<int32_t, double> exact;
  TokenWeights all;
  for (int part = 0; part < 40; ++part) {
    std::map<int32_t, double> own;
    for (int i = 0; i < 3000; ++i) {
      const double u = rng.Uniform();
      own[static_cast<int32_t>(20000 * u * u * u)] += rng.Uniform();
    }
    std::vector<TokenWeights::Entry> entries;
    for (const auto& [token, weight] : own) {
      entries.push_back({token, weight});
      exact[token] += weight;
    }
    all.Add(std::move(entries));
  }
  ASSERT_GT(exact.size(), 2 * kTokenCounters);
  const double bound = all.total() / (kTokenCounters + 1);
  const auto largest = all.Largest(20);
  ASSERT_THAT(largest, SizeIs(20));
  for (const auto& [token, weight] : largest) {
    EXPECT_LE(weight, exact.at(token) + 1e-9);
    EXPECT_GE(weight, exact.at(token) - bound);
  }
  EXPECT_TRUE(std::is_sorted(
      largest.begin(), largest.end(),
      [](const auto& a, const auto& b) { return a.weight > b.weight; }));
}

AtlasJob SmallJob() {
  AtlasJob job;
  job.strongest = 3;
  job.drawn = 16;
  job.samples = 2;
  job.intervals = 4;
  return job;
}

// Sequence i of 50 has strength (i · 7 mod 50) / 50 in head 0, and the same
// backwards in head 1.
void AddSequences(int begin, int end, AtlasSums& sums) {
  for (int i = begin; i < end; ++i) {
    const float strength = static_cast<float>(i * 7 % 50) / 50;
    sums.AddSequence(i, static_cast<uint64_t>(i), {i, i + 1},
                     {strength, 1 - strength});
  }
}

std::vector<int64_t> NumbersOf(const std::vector<StrongSequence>& kept) {
  std::vector<int64_t> numbers;
  for (const StrongSequence& one : kept) numbers.push_back(one.sequence);
  return numbers;
}

TEST(AtlasSums, KeepTheStrongestSequencesOfEachHead) {
  AtlasSums sums(2, SmallJob());
  AddSequences(0, 50, sums);
  EXPECT_THAT(NumbersOf(sums.strongest(0)), ElementsAre(7, 14, 21));
  EXPECT_THAT(NumbersOf(sums.strongest(1)), ElementsAre(0, 43, 36));
  EXPECT_EQ(sums.ids(43), (std::vector<int32_t>{43, 44}));
}

TEST(AtlasSums, OfPartsAreThoseOfTheWhole) {
  AtlasSums whole(2, SmallJob());
  AddSequences(0, 50, whole);
  AtlasSums merged(2, SmallJob());
  for (const auto& [begin, end] : {std::pair(0, 20), {20, 23}, {23, 50}}) {
    AtlasSums part(2, SmallJob());
    AddSequences(begin, end, part);
    merged.AddPacked(part.Packed());
  }
  EXPECT_EQ(NumbersOf(merged.strongest(0)), NumbersOf(whole.strongest(0)));
  EXPECT_EQ(NumbersOf(merged.strongest(1)), NumbersOf(whole.strongest(1)));
  ASSERT_THAT(merged.drawn(), SizeIs(16));
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(merged.drawn()[i].sequence, whole.drawn()[i].sequence);
  }
  EXPECT_EQ(merged.totals[0].strengths, whole.totals[0].strengths);
}

TEST(AtlasSums, GiveEveryIntervalItsSamples) {
  AtlasSums sums(2, SmallJob());
  AddSequences(0, 50, sums);
  for (const auto& kept : ChooseSequences(sums, SmallJob())) {
    std::map<int, int> count;
    for (const KeptSequence& one : kept) ++count[one.interval];
    EXPECT_EQ(count, (std::map<int, int>{{1, 2}, {2, 2}, {3, 2}, {4, 3}}));
    // Intervals lie above each other.
    for (size_t i = 1; i < kept.size(); ++i) {
      EXPECT_GE(kept[i - 1].interval, kept[i].interval);
      EXPECT_GE(kept[i - 1].strength, kept[i].strength);
    }
  }
}

TEST(AtlasSums, TellMetricsThatNoRowCountsForApart) {
  const auto metrics = MetricsOf({}, {});
  for (const double metric : metrics) EXPECT_TRUE(std::isnan(metric));
}

}  // namespace
}  // namespace headwise::atlas_sums_test
