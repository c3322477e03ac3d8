// Batches and the order of sequences. Door: batch.h.
#include "headwise/train/batch.h"

#include <algorithm>

#include "headwise/base/rng.h"
#include "headwise/ops/loss/loss.h"

namespace headwise {
namespace {

// A permutation of [0, 4^half_bits), keyed by (seed, epoch).
uint64_t Permute(uint64_t value, int half_bits, uint64_t seed, uint64_t epoch) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits, right = value & mask;
  for (uint64_t round = 0; round < 4; ++round) {
    const uint64_t mixed = Philox(seed, epoch * 4 + round, right)[0];
    const uint64_t next = left ^ (mixed & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

int64_t TrainBatch::CountTargets() const {
  return static_cast<int64_t>(targets.size()) -
         std::count(targets.begin(), targets.end(), kIgnoreTarget);
}

int64_t ShuffledPlace(int64_t i, int64_t size, uint64_t seed) {
  const auto count = static_cast<uint64_t>(size);
  int half_bits = 1;
  while ((uint64_t{1} << (2 * half_bits)) < count) ++half_bits;
  const auto epoch = static_cast<uint64_t>(i / size);
  uint64_t place = static_cast<uint64_t>(i % size);
  // Places past the end are sent on until they fall inside; the domain is at
  // most four times too large.
  do {
    place = Permute(place, half_bits, seed, epoch);
  } while (place >= count);
  return static_cast<int64_t>(place);
}

}  // namespace headwise
