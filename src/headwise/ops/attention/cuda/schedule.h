// Tile and schedule choices of the CUDA attention kernels: pure functions of
// the problem, used by host and device alike and tested without a GPU
// (schedule_test.cc).
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define HEADWISE_HD __host__ __device__ inline
#else
#define HEADWISE_HD inline
#endif

namespace headwise::attention_cuda {

// Reaches of a mask are clamped to this, so that positions fit in 32 bits.
inline constexpr int kFar = 1 << 29;

// Query at position p sees keys p − before … p + after, and keys below `sinks`
// that are not after p + after (AttentionMask, in 32 bits).
struct Band {
  int before = kFar;
  int after = kFar;
  int sinks = 0;
};

// Key tiles that a block of queries visits, in order of the walk: the band
// from right to left, then the sinks left of it, from right to left.
struct KeyWalk {
  int band_end = 0;    // one past the rightmost tile
  int band_count = 0;  // tiles of the band
  int sink_end = 0;    // one past the rightmost tile of the sinks' part
  HEADWISE_HD int count() const { return band_count + sink_end; }
  HEADWISE_HD int Tile(int step) const {
    return step < band_count ? band_end - 1 - step
                             : sink_end - 1 - (step - band_count);
  }
};

HEADWISE_HD int Min(int a, int b) { return a < b ? a : b; }
HEADWISE_HD int Max(int a, int b) { return a > b ? a : b; }
HEADWISE_HD int CeilDiv(int a, int b) { return (a + b - 1) / b; }

// Tiles that queries at positions first … last see of keys 0 … key_len − 1.
HEADWISE_HD KeyWalk WalkKeys(const Band& band, int first, int last, int key_len,
                             int tile) {
  KeyWalk walk;
  const int end = Min(key_len, last + band.after + 1);
  const int begin = Max(0, first - band.before);
  walk.band_end = end > begin ? CeilDiv(end, tile) : 0;
  walk.band_count = end > begin ? walk.band_end - begin / tile : 0;
  const int sink_keys = Min(band.sinks, Min(end, begin));
  if (sink_keys > 0) {
    const int sink_tiles = CeilDiv(sink_keys, tile);
    walk.sink_end =
        walk.band_count > 0 ? Min(sink_tiles, begin / tile) : sink_tiles;
  }
  return walk;
}

// Whether every query at first … last sees every key of the tile.
HEADWISE_HD bool TileIsFull(const Band& band, int first, int last, int key_len,
                            int tile_begin, int tile) {
  const int tile_last = tile_begin + tile - 1;
  return tile_last < key_len && tile_last <= first + band.after &&
         (tile_begin >= last - band.before || tile_last < band.sinks);
}

HEADWISE_HD bool Sees(const Band& band, int position, int key, int key_len) {
  return key < key_len && key <= position + band.after &&
         (key >= position - band.before || key < band.sinks);
}

// Keys that a query at `position` sees of 0 … key_len − 1.
HEADWISE_HD int VisibleKeys(const Band& band, int position, int key_len) {
  const int end = Max(0, Min(key_len, position + band.after + 1));
  const int begin = Min(end, Max(0, position - band.before));
  return end - begin + Min(band.sinks, begin);
}

// Buckets of the distance histogram: kMiddleBucket holds distance 0, the one s
// above distances 2^(s−1) … 2^s − 1 (the last: all further ones), the one s
// below the same of keys after the query.
inline constexpr int kBuckets = 43;
inline constexpr int kMiddleBucket = 21;

// Distances, position minus key, that lie in a bucket: first … last.
struct DistanceRange {
  int first, last;
};
HEADWISE_HD constexpr DistanceRange DistancesIn(int bucket) {
  const int size =
      bucket < kMiddleBucket ? kMiddleBucket - bucket : bucket - kMiddleBucket;
  const int nearest = size == 0 ? 0 : 1 << (size - 1);
  const int farthest = size == kMiddleBucket ? 2 * kFar : (1 << size) - 1;
  return bucket < kMiddleBucket ? DistanceRange{-farthest, -nearest}
                                : DistanceRange{nearest, farthest};
}

// Warpgroups that compute in a block of the Hopper kernel, 64 queries each.
HEADWISE_HD constexpr int ComputeGroups(int head_dim) {
  return head_dim == 64 ? 3 : 2;
}

// Keys a tile of that kernel. The full statistics take half as many: a tile
// then spans fewer buckets of distance, and its scores half the registers.
HEADWISE_HD constexpr int ForwardKeyTile(bool full) { return full ? 64 : 128; }

// Tiles of keys and of values in its shared memory: as many as there is room
// for.
HEADWISE_HD constexpr int ForwardStages(int head_dim, bool full) {
  return head_dim == 64 ? 4 : full ? 3 : 2;
}

// Whether a warpgroup of that kernel does its softmax under its own product of
// the tile before, which keeps that tile's probabilities in registers, a fourth
// of its keys. With 64 columns and 128 keys statistics need those: 160 a thread
// leave nothing to have several exponentials under way. The other two
// warpgroups keep the matrix unit busy.
HEADWISE_HD constexpr bool SoftmaxUnderProduct(int head_dim, int key_tile,
                                               bool statistics) {
  return head_dim != 64 || key_tile == 64 || !statistics;
}

// Whether it finds the largest score by maxima of three: half the instructions,
// at a lower rate each. Measured: +3 % with 64 columns, −1 % with 128.
HEADWISE_HD constexpr bool ThreeWayMaxima(int head_dim) {
  return head_dim == 64;
}

// Computing warpgroups of its backward kernels, of queries (dQ) or of keys (dK
// and dV), whose two results leave registers for fewer.
HEADWISE_HD constexpr int GradientGroups(int head_dim, bool of_keys) {
  return head_dim == 64 && !of_keys ? 3 : 2;
}

// Columns to which kernels pad a head.
HEADWISE_HD constexpr int PaddedDim(int head_dim) {
  return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}

// Diagonals of a square tile: on the d-th, column − row = d − (tile − 1),
// d = 0 … 2·(tile − 1). Its rows are first … last.
struct DiagonalRows {
  int first, last;
};
HEADWISE_HD DiagonalRows RowsOfDiagonal(int diagonal, int tile) {
  return {Max(0, tile - 1 - diagonal), Min(tile, 2 * tile - 1 - diagonal) - 1};
}

// Into how many parts the query blocks of one head are cut for the gradient of
// a relative table of `width` entries. Each has a table of its own: enough
// parts to fill a chip, but no more than 64 MiB of tables if it can be helped.
HEADWISE_HD int TableParts(int query_blocks, int heads, int64_t width) {
  constexpr int kEnough = 1024;
  constexpr int64_t kMostEntries = 1 << 24;
  const int64_t room = kMostEntries / (width * Max(1, heads));
  const int wanted = Min(query_blocks, CeilDiv(kEnough, Max(1, heads)));
  return Max(1, room < wanted ? static_cast<int>(room) : wanted);
}

// One block of queries of one head of one sequence.
struct WorkItem {
  int block = 0;
  int head = 0;  // index into the active heads
  int sequence = 0;
};

// The order of the work: sections of neighbouring heads whose keys and values
// fit in the L2 cache together; inside a section the blocks from last to first
// (under a causal mask: longest first), heads innermost.
struct WorkOrder {
  int blocks = 0;
  int heads = 0;
  int sequences = 0;
  int section = 1;  // (head, sequence) pairs per section

  HEADWISE_HD int count() const { return blocks * heads * sequences; }
  HEADWISE_HD WorkItem At(int index) const {
    const int pairs = heads * sequences;
    const int per_section = section * blocks;
    const int s = index / per_section;
    const int in_section = index - s * per_section;
    const int first_pair = s * section;
    const int width = Min(section, pairs - first_pair);
    const int row = in_section / width;
    const int pair = first_pair + in_section - row * width;
    WorkItem item;
    item.block = blocks - 1 - row;
    item.sequence = pair / heads;
    item.head = pair - item.sequence * heads;
    return item;
  }
};

// Pairs per section: as many heads as keep K and V within `cache_bytes`,
// times the query heads that share them.
HEADWISE_HD int SectionPairs(int64_t kv_bytes_per_head, int queries_per_kv,
                             int64_t cache_bytes) {
  const int64_t kv_heads =
      cache_bytes / (kv_bytes_per_head > 0 ? kv_bytes_per_head : 1);
  const int64_t pairs = (kv_heads > 0 ? kv_heads : 1) * queries_per_kv;
  return pairs > (1 << 20) ? (1 << 20) : static_cast<int>(pairs);
}

// Decoding: a few queries of each head against a long cache. A block holds up
// to kDecodeRows rows (queries of the heads that share keys) and walks a run of
// key tiles; where several share a walk, the last of them adds their runs up.
inline constexpr int kDecodeRows = 16;
inline constexpr int kDecodeKeys = 64;      // a tile
inline constexpr int kDecodeColumns = 128;  // most of a head
inline constexpr int kDecodeQueries = 8;    // most of a sequence
inline constexpr int kDecodeBlocks = 2;     // on a multiprocessor

HEADWISE_HD bool Decodes(int query_len, int head_dim, int value_dim) {
  return query_len <= kDecodeQueries && head_dim <= kDecodeColumns &&
         value_dim <= kDecodeColumns;
}

// The most key tiles that `query_len` neighbouring queries see.
HEADWISE_HD int MostTiles(const Band& band, int query_len, int key_len,
                          int tile) {
  const int all = CeilDiv(key_len, tile);
  if (band.before >= key_len || band.after >= key_len) return all;
  const int band_tiles =
      CeilDiv(band.before + band.after + query_len + 1, tile) + 1;
  return Min(all, band_tiles + CeilDiv(Min(band.sinks, key_len), tile));
}

// How a walk of `tiles` steps is cut: run r is steps r·steps … (r + 1)·steps
// − 1.
struct SplitPlan {
  int splits = 1;
  int steps = 0;
};

// Walks of so many tiles are not split: blocks that share one meet through
// global memory, which takes longer than walking this far.
inline constexpr int kWholeTiles = 4;

// For `units` walks of equal length on `slots` places that run at once: the
// fewest steps one after another, counting each block's beginning and end as
// two; of equals the fewest splits.
HEADWISE_HD SplitPlan PlanSplits(int units, int tiles, int slots) {
  constexpr int kEnds = 2, kMostWaves = 8;
  SplitPlan best{1, Max(1, tiles)};
  if (tiles <= kWholeTiles) return best;
  int64_t least = INT64_MAX;
  for (int waves = 1; waves <= kMostWaves; ++waves) {
    const int64_t room = static_cast<int64_t>(slots) * waves;
    const int64_t wanted =
        (static_cast<int64_t>(units) * tiles + room - 1) / room;
    const int steps = Max(1, static_cast<int>(wanted));
    const int splits = Max(1, CeilDiv(tiles, steps));
    const int64_t blocks = static_cast<int64_t>(units) * splits;
    const int64_t cost = (blocks + slots - 1) / slots * (steps + kEnds);
    if (cost < least || (cost == least && splits < best.splits)) {
      least = cost;
      best = {splits, steps};
    }
  }
  return best;
}

}  // namespace headwise::attention_cuda
