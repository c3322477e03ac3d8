// Counter-based random numbers (Philox 4x32-10, Salmon et al. 2011): value i of
// a stream depends on (seed, stream, i) alone, so work can be cut into tiles
// and resumed anywhere with the same result.
#pragma once

#include <array>
#include <cstdint>

namespace headwise {

// The four 32-bit words of one Philox block.
std::array<uint32_t, 4> Philox(uint64_t key, uint64_t stream, uint64_t counter);

class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0)
      : seed_(seed), stream_(stream) {}

  uint32_t NextU32();
  uint64_t NextU64();
  // Uniform in [0, 1), 53 bits.
  double Uniform();
  // Uniform integer in [0, bound); bound > 0. Without modulo bias.
  uint64_t Below(uint64_t bound);
  // Uniform integer in [low, high].
  int64_t Between(int64_t low, int64_t high);
  // Standard normal (Box–Muller).
  double Normal();

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t counter_ = 0;
  int left_ = 0;  // words of block_ not yet handed out
  std::array<uint32_t, 4> block_{};
};

}  // namespace headwise
