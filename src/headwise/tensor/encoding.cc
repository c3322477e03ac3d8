// Bytes of elements, whatever stores them. Doors: include/headwise/tensor.h,
// encoding.h.
#include "headwise/tensor/encoding.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

std::string BlocksOf(const ElementEncoding& encoding) {
  return std::to_string(encoding.block) + " elements of " + encoding.name;
}

[[noreturn]] void RefuseBlocks(const ElementEncoding& encoding,
                               std::string found,
                               const std::string& where = "tensor") {
  throw Error(ErrorCode::kInvalidArgument,
              {where, "whole blocks of " + BlocksOf(encoding), std::move(found),
               "make it f32 first"});
}

// The axis along which blocks lie; none: no axis has whole blocks, or strides
// of others cut them.
std::optional<int> BlockAxis(const ConstTensorView& view, int64_t block) {
  std::optional<int> found;
  for (int i = 0; i < view.rank; ++i) {
    if (view.stride[i] == 1 && view.shape[i] % block == 0) found = i;
  }
  for (int i = 0; found && i < view.rank; ++i) {
    if (i != *found && view.stride[i] % block != 0) return std::nullopt;
  }
  return found;
}

int RequiredBlockAxis(const ConstTensorView& view) {
  const ElementEncoding& encoding = EncodingOf(view.type);
  const std::optional<int> axis = BlockAxis(view, encoding.block);
  if (!axis) RefuseBlocks(encoding, ToString(view));
  return *axis;
}

template <typename View>
View BytesOfBlocks(View view) {
  const ElementEncoding& encoding = EncodingOf(view.type);
  if (encoding.plain()) return view;
  const int axis = RequiredBlockAxis(view);
  for (int i = 0; i < view.rank; ++i) {
    int64_t& counted = i == axis ? view.shape[i] : view.stride[i];
    counted = counted / encoding.block * encoding.bytes;
  }
  view.type = DType::kU8;
  return view;
}

}  // namespace

bool IsPlain(DType type) { return EncodingOf(type).plain(); }

const char* Name(DType type) { return EncodingOf(type).name; }

int64_t ElementSize(DType type) {
  const ElementEncoding& encoding = EncodingOf(type);
  if (!encoding.plain()) ThrowNotPlain(type);
  return encoding.bytes;
}

int64_t BytesOf(DType type, int64_t elements) {
  const ElementEncoding& encoding = EncodingOf(type);
  if (encoding.plain()) return elements * encoding.bytes;
  if (elements % encoding.block != 0) {
    RefuseBlocks(encoding, std::to_string(elements) + " elements");
  }
  return elements / encoding.block * encoding.bytes;
}

int64_t CheckedBytes(DType type, const Shape& shape, const char* where) {
  const ElementEncoding& encoding = EncodingOf(type);
  const auto refuse = [&](std::string expected) {
    throw Error(ErrorCode::kInvalidArgument,
                {where, std::move(expected), ToString(shape), ""});
  };
  const int last = shape.rank() - 1;
  if (!encoding.plain() && (last < 0 || shape[last] % encoding.block != 0)) {
    refuse("rows of whole blocks, " + BlocksOf(encoding) + " each");
  }
  int64_t elements = 1, bytes = 0;
  bool fits = true;
  for (const int64_t size : shape) {
    fits =
        fits && size >= 0 && !__builtin_mul_overflow(elements, size, &elements);
  }
  if (!fits || __builtin_mul_overflow(elements / encoding.block, encoding.bytes,
                                      &bytes)) {
    refuse("sizes ≥ 0 whose product fits 63 bits");
  }
  return bytes;
}

void CheckBlocks(const ConstTensorView& view, int axis, int64_t begin,
                 int64_t end, const std::string& where) {
  const ElementEncoding& encoding = EncodingOf(view.type);
  if (view.stride[axis] % encoding.block == 0) return;
  if (begin % encoding.block == 0 && end % encoding.block == 0) return;
  RefuseBlocks(encoding,
               "entries [" + std::to_string(begin) + ", " +
                   std::to_string(end) + ") on axis " + std::to_string(axis) +
                   " of " + ToString(view),
               where);
}

void RequireBlocks(const ConstTensorView& view) {
  if (!EncodingOf(view.type).plain()) RequiredBlockAxis(view);
}

float ReadInBlocks(const ConstTensorView& view, int64_t at) {
  const ElementEncoding& encoding = EncodingOf(view.type);
  std::array<float, kMostInBlock> values{};
  encoding.to_float(
      view.Raw<std::byte>() + BytesOf(view.type, at - at % encoding.block),
      encoding.block, values.data());
  return values[static_cast<size_t>(at % encoding.block)];
}

TensorView AsBytes(const TensorView& view) { return BytesOfBlocks(view); }
ConstTensorView AsBytes(const ConstTensorView& view) {
  return BytesOfBlocks(view);
}

void ThrowNotPlain(DType type) {
  throw Error(ErrorCode::kInvalidArgument,
              {"tensor", "a type whose elements have bytes of their own",
               Name(type), "make it f32 first"});
}

}  // namespace headwise
