// Tensor and its types. Door: include/headwise/tensor.h.
#include "headwise/tensor.h"

#include <cstdlib>
#include <cstring>

#include "headwise/base/byte_size.h"
#include "headwise/error.h"

namespace headwise {
namespace {

constexpr size_t kAlignment = 64;

template <typename Sizes>
std::string List(const Sizes& sizes, int rank) {
  std::string text = "[";
  for (int i = 0; i < rank; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(sizes[i]);
  }
  return text + "]";
}

}  // namespace

size_t SizeOf(DType type) {
  switch (type) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
    case DType::kI16:
      return 2;
    case DType::kU8:
    case DType::kI8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

const char* Name(DType type) {
  switch (type) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kU8:
      return "u8";
    case DType::kI16:
      return "i16";
    case DType::kI8:
      return "i8";
    case DType::kBool:
      return "bool";
  }
  return "?";
}

std::string ToString(const ConstTensorView& view) {
  return std::string(Name(view.type)) + " " + List(view.shape, view.rank);
}

void Tensor::Free::operator()(void* data) const { std::free(data); }

Tensor::Tensor(DType type, std::initializer_list<int64_t> shape) {
  if (shape.size() > static_cast<size_t>(kMaxRank)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"tensor", "at most 6 sizes", std::to_string(shape.size()), ""});
  }
  int64_t bytes = static_cast<int64_t>(SizeOf(type));
  for (int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"tensor", "sizes ≥ 0 whose product fits 63 bits",
                   List(shape.begin(), static_cast<int>(shape.size())), ""});
    }
  }
  const size_t rounded =
      (static_cast<size_t>(bytes) / kAlignment + 1) * kAlignment;
  memory_.reset(std::aligned_alloc(kAlignment, rounded));
  if (!memory_) {
    throw Error(ErrorCode::kOutOfMemory,
                {"tensor",
                 ByteSize(static_cast<uint64_t>(bytes)) + " for a tensor " +
                     List(shape.begin(), static_cast<int>(shape.size())),
                 "none", ""});
  }
  std::memset(memory_.get(), 0, rounded);
  view_ = TensorView(memory_.get(), type, shape);
}

int64_t Tensor::size() const {
  int64_t count = 1;
  for (int i = 0; i < view_.rank; ++i) count *= view_.shape[i];
  return view_.data == nullptr ? 0 : count;
}

}  // namespace headwise
