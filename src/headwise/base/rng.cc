// Philox 4x32-10. Door: rng.h.
#include "headwise/base/rng.h"

#include <cmath>
#include <numbers>

namespace headwise {

std::array<uint32_t, 4> Philox(uint64_t key, uint64_t stream,
                               uint64_t counter) {
  constexpr uint64_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t c0 = static_cast<uint32_t>(counter);
  uint32_t c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream);
  uint32_t c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMul0 * c0, p1 = kMul1 * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {c0, c1, c2, c3};
}

uint32_t Rng::NextU32() {
  if (left_ == 0) {
    block_ = Philox(seed_, stream_, counter_++);
    left_ = 4;
  }
  return block_[4 - left_--];
}

uint64_t Rng::NextU64() {
  const uint64_t low = NextU32();
  return low | static_cast<uint64_t>(NextU32()) << 32;
}

double Rng::Uniform() {
  return static_cast<double>(NextU64() >> 11) * 0x1.0p-53;
}

uint64_t Rng::Below(uint64_t bound) {
  const uint64_t limit = bound * (UINT64_MAX / bound);
  uint64_t value = NextU64();
  while (value >= limit) value = NextU64();
  return value % bound;
}

int64_t Rng::Between(int64_t low, int64_t high) {
  return low +
         static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
}

double Rng::Normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * Uniform());
}

}  // namespace headwise
