// The schedule of the CUDA kernels, without a GPU: every visible key is in a
// tile that is walked, once; tiles called full are; every block is handed out.
#include "headwise/ops/attention/cuda/schedule.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {
namespace {

struct WalkCase {
  Band band;
  int first, last, key_len, tile;
};

std::vector<WalkCase> WalkCases() {
  std::vector<WalkCase> cases;
  const Band bands[] = {{},          {kFar, 0, 0}, {10, 0, 0},  {130, 0, 4},
                        {3, 140, 0}, {64, 0, 150}, {0, 0, 300}, {kFar, 5, 2}};
  for (const Band& band : bands) {
    for (const int tile : {64, 128}) {
      for (const int key_len : {0, 1, 64, 129, 700}) {
        for (const int first : {-70, 0, 37, 512, 900}) {
          cases.push_back({band, first, first + 63, key_len, tile});
          cases.push_back({band, first, first, key_len, tile});
        }
      }
    }
  }
  return cases;
}

TEST(CudaScheduleTest, WalkVisitsEveryVisibleKeyOnce) {
  for (const WalkCase& c : WalkCases()) {
    const KeyWalk walk = WalkKeys(c.band, c.first, c.last, c.key_len, c.tile);
    std::set<int> tiles;
    for (int step = 0; step < walk.count(); ++step) {
      const int tile = walk.Tile(step);
      EXPECT_GE(tile, 0);
      EXPECT_LT(tile * c.tile, c.key_len);
      EXPECT_TRUE(tiles.insert(tile).second) << "tile " << tile << " twice";
    }
    for (int p = c.first; p <= c.last; ++p) {
      for (int j = 0; j < c.key_len; ++j) {
        if (Sees(c.band, p, j, c.key_len)) {
          ASSERT_EQ(tiles.count(j / c.tile), 1u)
              << "query at " << p << ", key " << j << " of " << c.key_len;
        }
      }
    }
  }
}

TEST(CudaScheduleTest, WalkGoesFromRightToLeft) {
  const KeyWalk walk = WalkKeys({130, 0, 4}, 512, 575, 700, 64);
  ASSERT_EQ(walk.count(), 5);
  const int expected[] = {8, 7, 6, 5, 0};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(walk.Tile(i), expected[i]);
}

TEST(CudaScheduleTest, FullTilesHoldNothingMasked) {
  int full = 0;
  for (const WalkCase& c : WalkCases()) {
    for (int begin = 0; begin < c.key_len; begin += c.tile) {
      bool all = true;
      for (int p = c.first; p <= c.last; ++p) {
        for (int j = begin; j < begin + c.tile; ++j) {
          all = all && Sees(c.band, p, j, c.key_len);
        }
      }
      const bool said =
          TileIsFull(c.band, c.first, c.last, c.key_len, begin, c.tile);
      EXPECT_TRUE(all || !said) << "tile at " << begin;
      full += said;
    }
  }
  EXPECT_GT(full, 100);
}

TEST(CudaScheduleTest, EveryBlockIsHandedOutOnce) {
  for (const int section : {1, 3, 5, 100}) {
    const WorkOrder order{4, 5, 3, section};
    std::set<std::tuple<int, int, int>> seen;
    for (int i = 0; i < order.count(); ++i) {
      const WorkItem item = order.At(i);
      EXPECT_TRUE(item.block >= 0 && item.block < 4);
      EXPECT_TRUE(item.head >= 0 && item.head < 5);
      EXPECT_TRUE(item.sequence >= 0 && item.sequence < 3);
      seen.insert({item.block, item.head, item.sequence});
    }
    EXPECT_EQ(static_cast<int>(seen.size()), order.count());
  }
}

TEST(CudaScheduleTest, LongestBlocksOfASectionComeFirst) {
  const WorkOrder order{4, 2, 1, 2};
  for (int i = 1; i < order.count(); ++i) {
    EXPECT_LE(order.At(i).block, order.At(i - 1).block);
  }
}

TEST(CudaScheduleTest, SectionsFillTheCache) {
  EXPECT_EQ(SectionPairs(1 << 20, 4, 32 << 20), 128);
  EXPECT_EQ(SectionPairs(1 << 30, 4, 32 << 20), 4);
  EXPECT_EQ(SectionPairs(0, 1, 32 << 20), 1 << 20);
}

TEST(CudaScheduleTest, RowScratchHoldsEveryKernelsLastBlock) {
  for (const int head_dim : {64, 128}) {
    for (const bool of_keys : {false, true}) {
      EXPECT_EQ(kRowPadding % (64 * GradientGroups(head_dim, of_keys)), 0);
    }
  }
}

TEST(CudaScheduleTest, DiagonalsHoldEveryPairOfATileOnce) {
  for (const int tile : {1, 5, 64}) {
    std::set<std::pair<int, int>> pairs;
    for (int diagonal = 0; diagonal < 2 * tile - 1; ++diagonal) {
      const DiagonalRows rows = RowsOfDiagonal(diagonal, tile);
      for (int row = rows.first; row <= rows.last; ++row) {
        const int column = row + diagonal - (tile - 1);
        EXPECT_TRUE(row >= 0 && row < tile && column >= 0 && column < tile)
            << row << ", " << column << " of " << tile;
        EXPECT_TRUE(pairs.insert({row, column}).second);
      }
    }
    EXPECT_EQ(static_cast<int>(pairs.size()), tile * tile);
  }
}

TEST(CudaScheduleTest, TablePartsFillAChipWithinTheirMemory) {
  EXPECT_EQ(TableParts(256, 16, 129), 64);
  EXPECT_EQ(TableParts(3, 16, 129), 3);
  EXPECT_EQ(TableParts(256, 16, 32769), 31);
  EXPECT_EQ(TableParts(0, 16, 129), 1);
  EXPECT_EQ(TableParts(256, 16, int64_t{1} << 31), 1);
}

TEST(CudaScheduleTest, HeadsArePaddedUpwards) {
  EXPECT_EQ(PaddedDim(32), 64);
  EXPECT_EQ(PaddedDim(64), 64);
  EXPECT_EQ(PaddedDim(80), 128);
  EXPECT_EQ(PaddedDim(256), 256);
}

TEST(CudaScheduleTest, BucketsHoldEveryDistanceOnce) {
  int next = -2 * kFar;
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    const DistanceRange range = DistancesIn(bucket);
    EXPECT_EQ(range.first, next) << bucket;
    EXPECT_LE(range.first, range.last) << bucket;
    next = range.last + 1;
  }
  EXPECT_EQ(next, 2 * kFar + 1);
  EXPECT_EQ(DistancesIn(kMiddleBucket).first, 0);
  EXPECT_EQ(DistancesIn(kMiddleBucket + 3).first, 4);
  EXPECT_EQ(DistancesIn(kMiddleBucket - 3).first, -7);
}

// Scores, output and what a row gathers must leave registers for exponentials
// under way: 16 of them, of 160 (three warpgroups) or 232 (two) a thread.
TEST(CudaScheduleTest, ForwardLeavesRegistersForTheSoftmax) {
  for (const int head_dim : {64, 128}) {
    for (const int level : {0, 1, 2}) {  // no statistics, core, full
      const int keys = ForwardKeyTile(level == 2);
      const bool under = SoftmaxUnderProduct(head_dim, keys, level > 0);
      const int held = under ? keys / 4 : 0;
      const int gathered[] = {8, 24, 36};
      const int used = keys / 2 + head_dim / 2 + held + gathered[level];
      const int owned = ComputeGroups(head_dim) == 3 ? 160 : 232;
      EXPECT_LE(used + 16, owned) << head_dim << " " << level;
    }
  }
}

TEST(CudaScheduleTest, CountsVisibleKeysAsSeen) {
  for (const WalkCase& c : WalkCases()) {
    int seen = 0;
    for (int j = 0; j < c.key_len; ++j) {
      seen += Sees(c.band, c.first, j, c.key_len);
    }
    EXPECT_EQ(VisibleKeys(c.band, c.first, c.key_len), seen)
        << c.first << " of " << c.key_len;
  }
}

TEST(CudaScheduleTest, MostTilesBoundsEveryWalk) {
  for (const WalkCase& c : WalkCases()) {
    const int queries = c.last - c.first + 1;
    const KeyWalk walk = WalkKeys(c.band, c.first, c.last, c.key_len, c.tile);
    EXPECT_LE(walk.count(), MostTiles(c.band, queries, c.key_len, c.tile));
  }
}

TEST(CudaScheduleTest, SplitsCoverTheWalkAndFillTheChip) {
  for (const int units : {1, 8, 32, 128, 3000}) {
    for (const int tiles : {0, 1, 4, 5, 7, 64, 512}) {
      const SplitPlan plan = PlanSplits(units, tiles, 264);
      EXPECT_GE(plan.splits, 1);
      EXPECT_GE(plan.splits * plan.steps, tiles);
      EXPECT_TRUE(tiles == 0 || (plan.splits - 1) * plan.steps < tiles);
      if (units * tiles < 264 * 8 || units > 264) continue;
      // No more than a fifth of the chip's time is lost to waiting.
      const int waves = CeilDiv(units * plan.splits, 264);
      EXPECT_LE(waves * plan.steps * 264, units * tiles * 5 / 4)
          << units << " walks of " << tiles;
    }
  }
}

TEST(CudaScheduleTest, ShortWalksAreWhole) {
  for (const int units : {1, 32, 264, 3000}) {
    for (int tiles = 1; tiles <= kWholeTiles; ++tiles) {
      const SplitPlan plan = PlanSplits(units, tiles, 264);
      EXPECT_EQ(plan.splits, 1) << units << " walks of " << tiles;
      EXPECT_EQ(plan.steps, tiles);
    }
  }
  EXPECT_GT(PlanSplits(32, kWholeTiles + 1, 264).splits, 1);
}

TEST(CudaScheduleTest, DecodesFewQueriesOfHeadsThatFit) {
  EXPECT_TRUE(Decodes(1, 128, 128));
  EXPECT_TRUE(Decodes(8, 64, 32));
  EXPECT_FALSE(Decodes(9, 64, 64));
  EXPECT_FALSE(Decodes(1, 256, 64));
}

}  // namespace
}  // namespace headwise::attention_cuda
