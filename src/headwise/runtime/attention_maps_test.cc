// Which cells of a map can be seen at all.
#include "headwise/runtime/attention_maps.h"

#include <gtest/gtest.h>

#include <string>

namespace headwise::attention_maps_test {
namespace {

// One line a row: '#' for what is seen.
std::string Seen(const AttentionMask& mask, int64_t tokens, int64_t cells) {
  MappedHead map;
  map.queries = map.keys = tokens;
  map.rows = map.columns = cells;
  map.mask = mask;
  std::string text;
  for (int64_t r = 0; r < cells; ++r) {
    for (int64_t c = 0; c < cells; ++c) text += map.Sees(r, c) ? '#' : '.';
    text += '\n';
  }
  return text;
}

TEST(MappedHead, CellsPastTheMaskAreNotSeen) {
  EXPECT_EQ(Seen(AttentionMask::None(), 2, 2), "##\n##\n");
  EXPECT_EQ(Seen(AttentionMask::Causal(), 3, 3), "#..\n##.\n###\n");
  EXPECT_EQ(Seen(AttentionMask::SlidingWindow(2), 4, 4),
            "#...\n##..\n.##.\n..##\n");
  EXPECT_EQ(Seen(AttentionMask::SlidingWindow(2, 0, 1), 4, 4),
            "#...\n##..\n###.\n#.##\n");
}

// A pooled cell is seen where any of its queries sees any of its keys.
TEST(MappedHead, PooledCellsAreSeenInPart) {
  EXPECT_EQ(Seen(AttentionMask::Causal(), 9, 3), "#..\n##.\n###\n");
  EXPECT_EQ(Seen(AttentionMask::Causal(), 5, 3), "#..\n##.\n###\n");
  EXPECT_EQ(Seen(AttentionMask::SlidingWindow(2), 9, 3), "#..\n##.\n.##\n");
}

}  // namespace
}  // namespace headwise::attention_maps_test
