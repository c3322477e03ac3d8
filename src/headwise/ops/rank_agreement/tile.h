// A tile of a list put in order, step by step as the threads of a block do it;
// for kernels, and for the host, which tests it.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define HEADWISE_RANKS_HD __host__ __device__ __forceinline__
#define HEADWISE_RANKS_UNROLL _Pragma("unroll")
#else
#define HEADWISE_RANKS_HD inline
#define HEADWISE_RANKS_UNROLL
#endif

namespace headwise {

// A number that orders as the float does, equal for 0 and −0.
HEADWISE_RANKS_HD uint32_t OrderOf(float value) {
  const float one_zero = value == 0 ? 0.0f : value;
  uint32_t bits = 0;
  memcpy(&bits, &one_zero, sizeof(bits));
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000;
}

// A value above and its place in the list below: they order as the values do,
// and no two are equal.
using RankEntry = uint64_t;
HEADWISE_RANKS_HD RankEntry EntryOf(float value, uint32_t place) {
  return (RankEntry{OrderOf(value)} << 32) | place;
}
HEADWISE_RANKS_HD uint32_t KeyOf(RankEntry entry) {
  return static_cast<uint32_t>(entry >> 32);
}
HEADWISE_RANKS_HD uint32_t PlaceOf(RankEntry entry) {
  return static_cast<uint32_t>(entry);
}
// Above all entries, since no place is so far.
inline constexpr RankEntry kNoEntry = ~RankEntry{0};

// Entries that a thread orders and merges at once. A tile has a multiple of
// them, the last of which may be none.
inline constexpr int kOwnEntries = 8;

// Where entry n of a tile lies: threads that step through their own entries
// side by side then meet no bank of shared memory twice.
HEADWISE_RANKS_HD int SlotOf(int n) { return n + n / kOwnEntries; }

// Puts entries in order.
HEADWISE_RANKS_HD void SortOwn(RankEntry (&own)[kOwnEntries]) {
  HEADWISE_RANKS_UNROLL
  for (int round = 0; round < kOwnEntries; ++round) {
    HEADWISE_RANKS_UNROLL
    for (int n = round % 2; n + 1 < kOwnEntries; n += 2) {
      const RankEntry a = own[n], b = own[n + 1];
      own[n] = a < b ? a : b;
      own[n + 1] = a < b ? b : a;
    }
  }
}

// Runs of `run` entries of a tile of `filled` are in order; two and two of them
// merged, this is entries [first, first + kOwnEntries) of the tile. `first` and
// `run` are multiples of that, the latter by a power of two.
HEADWISE_RANKS_HD void MergeOwn(const RankEntry* tile, int filled, int run,
                                int first, RankEntry (&own)[kOwnEntries]) {
  const auto at_most = [](int a, int b) { return a < b ? a : b; };
  const int begin = first & ~(2 * run - 1);
  const int middle = at_most(begin + run, filled);
  const int end = at_most(begin + 2 * run, filled);
  // Of the `before` entries ahead of ours, so many are of the first run: those
  // smaller than the one of the second run that would else be among them.
  const int before = first - begin;
  int low = before > end - middle ? before - (end - middle) : 0;
  int high = at_most(before, middle - begin);
  while (low < high) {
    const int n = (low + high) / 2;
    if (tile[SlotOf(begin + n)] < tile[SlotOf(middle + before - 1 - n)]) {
      low = n + 1;
    } else {
      high = n;
    }
  }
  int i = begin + low, j = middle + before - low;
  RankEntry a = i < middle ? tile[SlotOf(i)] : kNoEntry;
  RankEntry b = j < end ? tile[SlotOf(j)] : kNoEntry;
  HEADWISE_RANKS_UNROLL
  for (int n = 0; n < kOwnEntries; ++n) {
    const bool first_run = a < b;
    own[n] = first_run ? a : b;
    i += first_run ? 1 : 0;
    j += first_run ? 0 : 1;
    const int next = first_run ? i : j;
    const RankEntry entry =
        next < (first_run ? middle : end) ? tile[SlotOf(next)] : kNoEntry;
    a = first_run ? entry : a;
    b = first_run ? b : entry;
  }
}

// The largest power of two that is at most `count`; 0 for none.
HEADWISE_RANKS_HD int TopStep(int count) {
  int step = 1;
  while (2 * step <= count) step *= 2;
  return count == 0 ? 0 : step;
}

// Of `count` keys in order: how many are less than this one, and how many are
// not more, added up. `top` is TopStep(count).
HEADWISE_RANKS_HD int CountBoth(const uint32_t* keys, int count, int top,
                                uint32_t key) {
  int less = 0;
  for (int step = top; step > 0; step /= 2) {
    if (less + step <= count && keys[less + step - 1] < key) less += step;
  }
  if (less == count || keys[less] != key) return 2 * less;
  int not_more = less + 1;
  for (int step = top; step > 0; step /= 2) {
    if (not_more + step <= count && keys[not_more + step - 1] == key) {
      not_more += step;
    }
  }
  return less + not_more;
}

}  // namespace headwise
