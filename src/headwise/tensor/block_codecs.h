// The values of blocks, and blocks of values: the functions that the table of
// encodings (encoding.h) names. `count` is a multiple of the block; blocks may
// lie at any address.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headwise {

// q8_0 of GGUF: 32 integers q of 8 bits behind their scale d, f16, both
// little-endian; a value is d · q.
void Q8ToFloat(const std::byte* blocks, int64_t count, float* values);
// d = the largest magnitude / 127; q = the value / d, rounded to nearest,
// halves away from 0, before d is rounded to f16. Values are finite and at most
// 127 · 65504, which d can hold.
void Q8FromFloat(const float* values, int64_t count, std::byte* blocks);

// mxfp4 of GGUF: a byte e, then 32 numbers of 4 bits, the first 16 in the low
// halves of 16 bytes, the others in the high ones: a sign and one of 0, 1/2, 1,
// 3/2, 2, 3, 4, 6. A value is that · 2^(e − 127); e = 255 is NaN.
void Fp4ToFloat(const std::byte* blocks, int64_t count, float* values);
// 2^(e − 127) brings the largest magnitude to [4, 8); then the nearest number
// of 4 bits, at most 6, the even one of two. Values are finite.
void Fp4FromFloat(const float* values, int64_t count, std::byte* blocks);

}  // namespace headwise
