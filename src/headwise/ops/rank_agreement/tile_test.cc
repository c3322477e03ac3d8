#include "headwise/ops/rank_agreement/tile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "headwise/base/rng.h"

namespace headwise {
namespace {

// As a block does it, thread by thread between its barriers.
std::vector<RankEntry> SortedTile(const std::vector<RankEntry>& entries) {
  const int count = static_cast<int>(entries.size());
  const int filled = (count + kOwnEntries - 1) / kOwnEntries * kOwnEntries;
  std::vector<RankEntry> tile(SlotOf(filled) + 1);
  for (int n = 0; n < filled; ++n) {
    tile[SlotOf(n)] = n < count ? entries[n] : kNoEntry;
  }
  const auto store = [&](int first, const RankEntry(&own)[kOwnEntries]) {
    for (int n = 0; n < kOwnEntries; ++n) tile[SlotOf(first + n)] = own[n];
  };
  RankEntry own[kOwnEntries];
  for (int first = 0; first < filled; first += kOwnEntries) {
    for (int n = 0; n < kOwnEntries; ++n) own[n] = tile[SlotOf(first + n)];
    SortOwn(own);
    store(first, own);
  }
  for (int run = kOwnEntries; run < filled; run *= 2) {
    const std::vector<RankEntry> last = tile;
    for (int first = 0; first < filled; first += kOwnEntries) {
      MergeOwn(last.data(), filled, run, first, own);
      store(first, own);
    }
  }
  std::vector<RankEntry> sorted;
  for (int n = 0; n < count; ++n) sorted.push_back(tile[SlotOf(n)]);
  return sorted;
}

TEST(RankTile, OrdersAsFloatsDo) {
  const float top = std::numeric_limits<float>::infinity();
  const float least = std::numeric_limits<float>::denorm_min();
  const std::vector<float> values = {-top,  -2.5f,  -1.0f, -least, 0.0f,
                                     least, 1e-30f, 1.0f,  2.5f,   top};
  for (size_t n = 1; n < values.size(); ++n) {
    EXPECT_LT(OrderOf(values[n - 1]), OrderOf(values[n])) << n;
  }
  EXPECT_EQ(OrderOf(0.0f), OrderOf(-0.0f));
}

TEST(RankTile, IsSortedByBlocks) {
  Rng rng(11);
  for (const int count : {1, 2, 7, 8, 9, 16, 17, 100, 255, 256, 257, 500, 1000,
                          1023, 1024, 1025, 3333, 4095, 4096}) {
    for (const uint64_t values : {1, 2, 30, 1 << 20}) {
      SCOPED_TRACE(testing::Message() << count << " of " << values);
      std::vector<RankEntry> entries;
      for (int n = 0; n < count; ++n) {
        const float value = static_cast<float>(rng.Below(values)) - 10;
        entries.push_back(EntryOf(value, static_cast<uint32_t>(n)));
      }
      const std::vector<RankEntry> found = SortedTile(entries);
      std::sort(entries.begin(), entries.end());
      EXPECT_EQ(found, entries);
    }
  }
}

TEST(RankTile, CountsWhatIsLessAndWhatIsNotMore) {
  Rng rng(12);
  for (const int count : {0, 1, 2, 3, 31, 32, 33, 1000, 1024, 4095, 4096}) {
    for (const uint64_t values : {1, 5, 100, 10000}) {
      SCOPED_TRACE(testing::Message() << count << " of " << values);
      std::vector<uint32_t> keys;
      for (int n = 0; n < count; ++n) {
        keys.push_back(static_cast<uint32_t>(1 + rng.Below(values)));
      }
      std::sort(keys.begin(), keys.end());
      for (uint32_t key = 0; key <= std::min<uint64_t>(values, 300) + 1;
           ++key) {
        const auto less = std::lower_bound(keys.begin(), keys.end(), key);
        const auto more = std::upper_bound(keys.begin(), keys.end(), key);
        EXPECT_EQ(CountBoth(keys.data(), count, TopStep(count), key),
                  (less - keys.begin()) + (more - keys.begin()));
      }
    }
  }
  const std::vector<uint32_t> top(9, std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(CountBoth(top.data(), 9, TopStep(9), top[0]), 9);
}

}  // namespace
}  // namespace headwise
