// Tensors as plain data: a type, up to six sizes, strides, and a pointer that
// is owned (Tensor) or borrowed (TensorView, ConstTensorView).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>

#include "headwise/export.h"

namespace headwise {

enum class DType : uint8_t {
  kF32,
  kF64,
  kBF16,
  kF16,
  kI32,
  kI64,
  kU8,
  kI16,
  kI8,
  kBool,  // one byte, 0 or 1
};

// Where a tensor's memory lives.
enum class Device : uint8_t { kCpu, kCuda };

HEADWISE_API size_t SizeOf(DType type);
// "f32", "bf16", …
HEADWISE_API const char* Name(DType type);

inline constexpr int kMaxRank = 6;

// A strided view of memory owned elsewhere. Strides are in elements; a stride
// of 0 repeats one slice (broadcast). A null `data` means "not given".
template <typename Void>
struct BasicView {
  Void* data = nullptr;
  DType type = DType::kF32;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> stride{};

  BasicView() = default;
  // Dense, row-major.
  BasicView(Void* pointer, DType dtype, std::initializer_list<int64_t> sizes)
      : data(pointer), type(dtype), rank(static_cast<int>(sizes.size())) {
    int i = 0;
    for (int64_t size : sizes) shape[i++] = size;
    int64_t step = 1;
    for (i = rank - 1; i >= 0; --i) {
      stride[i] = step;
      step *= shape[i];
    }
  }
  // A mutable view reads as a constant one.
  template <typename Other,
            typename = std::enable_if_t<std::is_const_v<Void> &&
                                        !std::is_const_v<Other>>>
  BasicView(const BasicView<Other>& other)  // NOLINT: implicit on purpose
      : data(other.data),
        type(other.type),
        rank(other.rank),
        shape(other.shape),
        stride(other.stride) {}

  explicit operator bool() const { return data != nullptr; }

  template <typename T>
  auto As() const {
    using Pointer = std::conditional_t<std::is_const_v<Void>, const T*, T*>;
    return static_cast<Pointer>(data);
  }
};

using TensorView = BasicView<void>;
using ConstTensorView = BasicView<const void>;

// "f32 [2, 5, 8, 64]"
HEADWISE_API std::string ToString(const ConstTensorView& view);

// Dense views of arrays.
inline TensorView View(float* data, std::initializer_list<int64_t> shape) {
  return {data, DType::kF32, shape};
}
inline ConstTensorView View(const float* data,
                            std::initializer_list<int64_t> shape) {
  return {data, DType::kF32, shape};
}

// An owned, dense, row-major tensor on the host, 64-byte aligned, zeroed.
class HEADWISE_API Tensor {
 public:
  Tensor() = default;
  // Throws Error(kInvalidArgument) for negative or overflowing sizes and
  // Error(kOutOfMemory) when the memory cannot be had.
  Tensor(DType type, std::initializer_list<int64_t> shape);

  DType type() const { return view_.type; }
  int rank() const { return view_.rank; }
  int64_t shape(int axis) const { return view_.shape[axis]; }
  int64_t size() const;
  size_t bytes() const { return size() * SizeOf(type()); }

  TensorView view() { return view_; }
  ConstTensorView view() const { return view_; }
  template <typename T>
  T* As() {
    return view_.As<T>();
  }
  template <typename T>
  const T* As() const {
    return static_cast<const T*>(view_.data);
  }

 private:
  struct Free {
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Free> memory_;
  TensorView view_;
};

}  // namespace headwise
