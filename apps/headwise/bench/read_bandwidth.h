// How fast memory is read here: the bound of everything that reads each number
// once.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/context.h"

namespace headwise::bench {

class ReadBandwidth {
 public:
  // Reads as much as `bytes`, and more than caches hold.
  explicit ReadBandwidth(int64_t bytes);

  int64_t bytes() const { return static_cast<int64_t>(data_.size()) * 8; }
  // All of it once, by all threads of the context.
  void Read(Context& context);

 private:
  std::vector<uint64_t> data_;
  std::vector<uint64_t> sums_;  // so that nothing is left out
};

}  // namespace headwise::bench
