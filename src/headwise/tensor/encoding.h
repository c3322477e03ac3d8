// How types store their elements, as a table: plain ones, each element with
// bytes of its own, and blocks of elements with scales. A new encoding is one
// DType, one row here, its two functions (block_codecs.h) and their test.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "headwise/tensor.h"
#include "headwise/tensor/block_codecs.h"

namespace headwise {

struct ElementEncoding {
  DType type = DType::kF32;
  const char* name = "?";
  int64_t block = 1;  // elements that are stored together; 1: a plain type
  int64_t bytes = 0;  // of a block
  // Blocks only: the values of the blocks of `count` elements, and back. Bytes
  // of 0 are values of 0. from_float is null where nothing writes the encoding.
  void (*to_float)(const std::byte* blocks, int64_t count,
                   float* values) = nullptr;
  void (*from_float)(const float* values, int64_t count,
                     std::byte* blocks) = nullptr;

  constexpr bool plain() const { return block == 1; }
};

// In the order of DType.
inline constexpr std::array kEncodings = {
    ElementEncoding{DType::kF32, "f32", 1, 4},
    ElementEncoding{DType::kF64, "f64", 1, 8},
    ElementEncoding{DType::kBF16, "bf16", 1, 2},
    ElementEncoding{DType::kF16, "f16", 1, 2},
    ElementEncoding{DType::kI32, "i32", 1, 4},
    ElementEncoding{DType::kI64, "i64", 1, 8},
    ElementEncoding{DType::kU8, "u8", 1, 1},
    ElementEncoding{DType::kI16, "i16", 1, 2},
    ElementEncoding{DType::kI8, "i8", 1, 1},
    ElementEncoding{DType::kBool, "bool", 1, 1},
    ElementEncoding{DType::kQ8_0, "q8_0", 32, 34, Q8ToFloat, Q8FromFloat},
    ElementEncoding{DType::kMXFP4, "mxfp4", 32, 17, Fp4ToFloat, Fp4FromFloat},
};
inline constexpr int64_t kMostInBlock = 32;
inline constexpr ElementEncoding kNoEncoding;

constexpr bool EncodingsFit() {
  for (size_t i = 0; i < kEncodings.size(); ++i) {
    const ElementEncoding& row = kEncodings[i];
    if (row.type != static_cast<DType>(i) || row.block > kMostInBlock) {
      return false;
    }
  }
  return true;
}
static_assert(EncodingsFit());

// "?" of no bytes for what is no DType.
constexpr const ElementEncoding& EncodingOf(DType type) {
  const auto row = static_cast<size_t>(type);
  return row < kEncodings.size() ? kEncodings[row] : kNoEncoding;
}

// BytesOf, inline for plain types: what views' addresses are made of.
inline int64_t ByteOffset(DType type, int64_t elements) {
  const ElementEncoding& encoding = EncodingOf(type);
  return encoding.plain() ? elements * encoding.bytes : BytesOf(type, elements);
}

// The bytes of a dense view; 0 where it is not given.
inline int64_t BytesOf(const ConstTensorView& dense) {
  return dense ? ByteOffset(dense.type, dense.size()) : 0;
}

// The bytes of a dense tensor. Throws Error(kInvalidArgument) naming `where`
// for negative sizes, for a product that does not fit 63 bits and for rows that
// are not whole blocks.
int64_t CheckedBytes(DType type, const Shape& shape, const char* where);

// Throws Error(kInvalidArgument) naming `where` unless [begin, end) of an axis
// begins and ends between blocks.
void CheckBlocks(const ConstTensorView& view, int axis, int64_t begin,
                 int64_t end, const std::string& where);

// Throws Error(kInvalidArgument) unless a view in blocks has an axis of whole
// ones, and no stride cuts them.
void RequireBlocks(const ConstTensorView& view);

// Element `at`, counted along memory, of a view in blocks: slow and plain.
float ReadInBlocks(const ConstTensorView& view, int64_t at);

// The same memory as u8, for what moves blocks and does not read them: the axis
// of blocks gets as many elements as they have bytes. A plain view stays.
// Throws as RequireBlocks does.
TensorView AsBytes(const TensorView& view);
ConstTensorView AsBytes(const ConstTensorView& view);

// Throws Error(kInvalidArgument): no single element can be written.
[[noreturn]] void ThrowNotPlain(DType type);

}  // namespace headwise
