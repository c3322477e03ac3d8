// Dot products with weights in f16 by instructions that multiply halves and add
// in f32, where the processor has them (ARM's FMLAL). Converting f16 to f32
// first takes longer than reading it from memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headwise {

// Whether DotHalf may be called in this process.
bool HasHalfDots();

// Lines are worked on four at a time, eight numbers of each in turn.
inline constexpr size_t kHalfLines = 4;
inline constexpr size_t kHalfStep = 8;

// A row of f32 as the sum of two rows of halves, together 22 bits of each
// number, times a power of two.
struct SplitRow {
  std::vector<uint16_t> high, low;  // [k], zero up to a whole step
  float scale = 1;

  // Whether x [k] has such a form: all of it is finite.
  bool Set(const float* x, size_t k);
};

// sums [groups, 4] = Σ x·w over `steps` steps of each of `groups` groups of
// four lines; w: f16 bits [groups, steps, kHalfLines, kHalfStep].
void DotHalf(const SplitRow& x, const uint16_t* w, size_t steps, size_t groups,
             float* sums);

}  // namespace headwise
