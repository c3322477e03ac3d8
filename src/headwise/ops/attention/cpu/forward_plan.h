// How a forward call is cut into work: groups of key/value heads whose packed
// keys and values are held at one time, and in each group blocks of queries,
// the tasks. Nothing here depends on the number of threads.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "headwise/attention.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/geometry.h"

namespace headwise {

// Keys of one tile. Its packed keys and values (64 × 64 × 2 floats, 32 KiB) and
// a panel of queries, scores and outputs share a 64 KiB L1.
inline constexpr int64_t kTileKeys = 64;

// What the walk over keys sums up: what a call's statistics need and somebody
// looks at.
enum class WalkLevel : uint8_t {
  kNone,
  kCore,
  kKept,  // and histogram and maximum among kept keys
  kFull,  // and second moments: varentropy, Σp²
};

// What a call asks for, with defaults resolved, and where its lists are kept.
struct ForwardCall {
  const AttentionProblem& problem;
  const AttentionArgs& args;
  const Observation* observation = nullptr;  // null: nothing to observe
  Statistics statistics = Statistics::kNone;
  WalkLevel walk = WalkLevel::kNone;
  int64_t head_dim = 0;
  int64_t value_dim = 0;
  int64_t features = 0;
  int64_t labels = 0;
  std::pmr::vector<Sequence> sequences;

  ForwardCall(
      const AttentionProblem& call_problem, const AttentionArgs& call_args,
      std::pmr::memory_resource* memory = std::pmr::get_default_resource());
  std::pmr::memory_resource* memory() const {
    return sequences.get_allocator().resource();
  }
};

// One sequence's keys and values of one kv_head.
struct PackedHead {
  int64_t sequence = 0;
  int64_t kv_head = 0;
  int64_t first_tile = 0;  // in the group's memory
  int64_t tiles = 0;
};

// Queries [begin, begin + count) of one head.
struct BlockTask {
  int64_t packed = 0;  // index into the group's heads
  int64_t head = 0;
  int64_t begin = 0;
  int64_t count = 0;
  bool last = false;    // of its head: also clears rows past the sequence's end
  int64_t partial = 0;  // where its sums go: blocks of a head side by side
  double work = 0;      // keys its queries see
};

// Sums of one head: partials [begin, end) of the group, in order.
struct HeadSum {
  int64_t sequence = 0;
  int64_t head = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct ForwardGroup {
  explicit ForwardGroup(std::pmr::memory_resource* memory)
      : heads(memory), tasks(memory), sums(memory) {}

  std::pmr::vector<PackedHead> heads;
  std::pmr::vector<BlockTask> tasks;  // longest first
  std::pmr::vector<HeadSum> sums;
  int64_t tiles = 0;
};

// tile_bytes: packed keys and values of one tile.
std::pmr::vector<ForwardGroup> PlanForward(const ForwardCall& call,
                                           int64_t tile_bytes);

}  // namespace headwise
