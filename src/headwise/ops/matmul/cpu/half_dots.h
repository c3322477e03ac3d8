// Dot products with weights in f16 by instructions that multiply halves and add
// in f32, where the processor has them (ARM's FMLAL). Converting f16 to f32
// first takes longer than reading it from memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headwise {

// Whether DotHalf may be called in this process.
bool HasHalfDots();

// Lines are worked on four at a time, eight numbers of each in turn.
inline constexpr size_t kHalfLines = 4;
inline constexpr size_t kHalfStep = 8;

// A row of f32 as the sum of two rows of halves, together 22 bits of each
// number, times a power of two.
struct SplitRow {
  const uint16_t* high = nullptr;  // [k], zero up to a whole step
  const uint16_t* low = nullptr;   // likewise
  float scale = 1;

  // Numbers of memory that Set needs.
  static size_t MemoryOf(size_t k) {
    return 2 * ((k + kHalfStep - 1) / kHalfStep * kHalfStep);
  }
  // Whether x [k] has such a form: all of it is finite. It lies in `memory`.
  bool Set(const float* x, size_t k, uint16_t* memory);
};

// Groups of four lines, one after the other.
struct HalfGroups {
  // f16 bits [following, steps, kHalfLines, kHalfStep].
  const uint16_t* data = nullptr;
  size_t steps = 0;
  size_t count = 0;
  // At least count: up to where this thread is likely to read on.
  size_t following = 0;
};

// sums [groups.count, 4] = Σ x·w of each line.
void DotHalf(const SplitRow& x, const HalfGroups& groups, float* sums);

}  // namespace headwise
