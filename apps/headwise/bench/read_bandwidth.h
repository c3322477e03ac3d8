// How fast memory is read here: the bound of everything that reads each number
// once.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/backend/cpu/large_memory.h"
#include "headwise/context.h"

namespace headwise::bench {

class ReadBandwidth {
 public:
  // Reads as much as `bytes`, and more than caches hold.
  explicit ReadBandwidth(int64_t bytes);

  int64_t bytes() const { return count_ * 8; }
  // All of it once, by all threads of the context.
  void Read(Context& context);

 private:
  int64_t count_;       // numbers
  LargeMemory memory_;  // as weights lie
  uint64_t* data_;
  std::vector<uint64_t> sums_;  // so that nothing is left out
};

}  // namespace headwise::bench
