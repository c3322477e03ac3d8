// Door: read_bandwidth.h.
#include "bench/read_bandwidth.h"

#include <algorithm>
#include <string>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/error.h"

namespace headwise::bench {
namespace {

constexpr int64_t kLeastBytes = int64_t{48} << 20;
constexpr int64_t kChunk = int64_t{64} << 10;  // numbers of one task

// Eight sums side by side, so that the reads and not the additions take time.
uint64_t Sum(const uint64_t* from, int64_t count) {
  uint64_t sums[8] = {};
  for (int64_t i = 0; i < count; i += 8) {
    for (int s = 0; s < 8; ++s) sums[s] += from[i + s];
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  return sum;
}

}  // namespace

ReadBandwidth::ReadBandwidth(int64_t bytes)
    : count_((std::max(bytes, kLeastBytes) / 8 + kChunk - 1) / kChunk * kChunk),
      memory_(count_ * sizeof(uint64_t)),
      data_(static_cast<uint64_t*>(memory_.Take(count_ * sizeof(uint64_t)))),
      sums_(count_ / kChunk, 0) {
  if (data_ == nullptr) {
    throw Error(
        ErrorCode::kOutOfMemory,
        {"bench", std::to_string(this->bytes()) + " bytes", "none", ""});
  }
  std::fill_n(data_, count_, 1);
}

void ReadBandwidth::Read(Context& context) {
  context.pool().ParallelFor(
      static_cast<int64_t>(sums_.size()), [&](int64_t task, int) {
        sums_[task] += Sum(data_ + task * kChunk, kChunk);
      });
}

}  // namespace headwise::bench
