/// @file
/// Tensors as plain data: a type, a device, up to six sizes, strides, and a
/// pointer that is owned (Tensor) or borrowed (TensorView, ConstTensorView).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "headwise/device.h"
#include "headwise/export.h"

namespace headwise {

class Context;        // context.h
class DeviceBackend;  // of the library's inside

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
  kBool,  ///< one byte, 0 or 1
  /// 32 elements in 34 bytes: their scale, f16, then an integer of 8 bits for
  /// each. Stored only: not IsPlain.
  kQ8_0,
  /// 32 elements in 17 bytes: their scale, a power of two, then 4 bits (a sign,
  /// two of exponent, one of fraction) for each. Stored only.
  kMXFP4,
};

/// Whether each element has bytes of its own. The other types store elements in
/// blocks that share a scale. Blocks follow each other on the axis of stride 1,
/// whose size is a multiple of a block; slices begin and end between blocks. No
/// operator reads such a type but a copy, which makes it f32.
HEADWISE_API bool IsPlain(DType type);
/// Bytes of one element of a plain type. Throws Error(kInvalidArgument) for the
/// others, whose elements have none of their own.
HEADWISE_API int64_t ElementSize(DType type);
/// Bytes of so many elements of any type. Throws Error(kInvalidArgument) where
/// they are not whole blocks.
HEADWISE_API int64_t BytesOf(DType type, int64_t elements);
/// "f32", "bf16", …
HEADWISE_API const char* Name(DType type);

/// Precision of an operator's products, apart from the type that tensors store.
enum class Precision : uint8_t {
  kStored,  ///< operands as they are stored, or the wider one's type
  kBF16,    ///< operands rounded to bf16
  kF16,     ///< operands rounded to f16
};

/// Whether elements of a type can be read as T: float f32, double f64, uint16_t
/// the bits of bf16 and f16, uint8_t u8 and bool, integers their own; char and
/// std::byte the bytes of any.
template <typename T>
constexpr bool IsElement([[maybe_unused]] DType type) {
  using std::is_same_v;
  if constexpr (is_same_v<T, float>) {
    return type == DType::kF32;
  } else if constexpr (is_same_v<T, double>) {
    return type == DType::kF64;
  } else if constexpr (is_same_v<T, uint16_t>) {
    return type == DType::kBF16 || type == DType::kF16;
  } else if constexpr (is_same_v<T, int64_t>) {
    return type == DType::kI64;
  } else if constexpr (is_same_v<T, int32_t>) {
    return type == DType::kI32;
  } else if constexpr (is_same_v<T, int16_t>) {
    return type == DType::kI16;
  } else if constexpr (is_same_v<T, int8_t>) {
    return type == DType::kI8;
  } else if constexpr (is_same_v<T, bool>) {
    return type == DType::kBool;
  } else if constexpr (is_same_v<T, uint8_t>) {
    return type == DType::kU8 || type == DType::kBool;
  } else {
    static_assert(is_same_v<T, char> || is_same_v<T, std::byte>,
                  "no tensor has elements of this type");
    return true;
  }
}

inline constexpr int kMaxRank = 6;

/// Up to six sizes.
class Shape {
 public:
  Shape() = default;
  /// Throw Error(kInvalidArgument) for more than six.
  Shape(std::initializer_list<int64_t> sizes)  // NOLINT: implicit on purpose
      : Shape(std::span(sizes.begin(), sizes.size())) {}
  Shape(std::span<const int64_t> sizes) {  // NOLINT: likewise
    if (sizes.size() > kMaxRank) ThrowTooMany(sizes.size());
    for (const int64_t size : sizes) sizes_.data()[rank_++] = size;
  }

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return sizes_.data()[axis]; }
  const std::array<int64_t, kMaxRank>& sizes() const { return sizes_; }
  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + rank_; }

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  [[noreturn]] HEADWISE_API static void ThrowTooMany(size_t count);

  int rank_ = 0;
  std::array<int64_t, kMaxRank> sizes_{};
};

/// "[2, 5, 8, 64]"
HEADWISE_API std::string ToString(const Shape& shape);

/// Throws Error(kInvalidArgument).
[[noreturn]] HEADWISE_API void ThrowNotReadable(DType type, Device device);

/// A strided view of memory owned elsewhere. Strides are in elements, whatever
/// the type; a stride of 0 repeats one slice (broadcast). A null `data` means
/// "not given".
template <typename Void>
struct BasicView {
  Void* data = nullptr;
  DType type = DType::kF32;
  Device device;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> stride{};

  BasicView() = default;
  /// Dense, row-major.
  BasicView(Void* pointer, DType dtype, const Shape& sizes, Device where = {})
      : data(pointer),
        type(dtype),
        device(where),
        rank(sizes.rank()),
        shape(sizes.sizes()) {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; --i) {
      stride.data()[i] = step;
      step *= shape.data()[i];
    }
  }
  /// A mutable view reads as a constant one.
  template <typename Other,
            typename = std::enable_if_t<std::is_const_v<Void> &&
                                        !std::is_const_v<Other>>>
  BasicView(const BasicView<Other>& other)  // NOLINT: implicit on purpose
      : data(other.data),
        type(other.type),
        device(other.device),
        rank(other.rank),
        shape(other.shape),
        stride(other.stride) {}

  explicit operator bool() const { return data != nullptr; }

  /// How many elements.
  int64_t size() const {
    int64_t count = 1;
    for (int i = 0; i < rank; ++i) count *= shape.data()[i];
    return count;
  }

  /// The data as the host's memory of T (IsElement). Throws
  /// Error(kInvalidArgument) for elements of another type and for memory of
  /// another device. A view that is not given is a null pointer.
  template <typename T>
  auto As() const {
    if (data != nullptr && (!IsElement<T>(type) || !device.is_cpu())) {
      ThrowNotReadable(type, device);
    }
    return Raw<T>();
  }
  /// The data as T, unchecked, on any device.
  template <typename T>
  auto Raw() const {
    using Pointer = std::conditional_t<std::is_const_v<Void>, const T*, T*>;
    return static_cast<Pointer>(data);
  }
};

using TensorView = BasicView<void>;
using ConstTensorView = BasicView<const void>;

/// "f32 [2, 5, 8, 64]", "bf16 [2, 5] on cuda:0"
HEADWISE_API std::string ToString(const ConstTensorView& view);

/// Dense views of host arrays.
inline TensorView View(float* data, const Shape& shape) {
  return {data, DType::kF32, shape};
}
inline ConstTensorView View(const float* data, const Shape& shape) {
  return {data, DType::kF32, shape};
}

/// An owned, dense, row-major tensor, 64-byte aligned, zeroed.
class HEADWISE_API Tensor {
 public:
  Tensor() = default;
  /// On the host. Throws Error(kInvalidArgument) for negative or overflowing
  /// sizes and for rows that are not whole blocks, and Error(kOutOfMemory) when
  /// the memory cannot be had.
  Tensor(DType type, const Shape& shape);
  /// On the context's device, in the order of its queue; the same errors. It
  /// may outlive the context.
  Tensor(Context& context, DType type, const Shape& shape);
  /// A tensor with undefined contents.
  static Tensor Undefined(Context& context, DType type, const Shape& shape);
  /// A moved-from tensor equals Tensor().
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;

  DType type() const { return view_.type; }
  Device device() const { return view_.device; }
  int rank() const { return view_.rank; }
  int64_t shape(int axis) const { return view_.shape.data()[axis]; }
  int64_t size() const { return view_.data == nullptr ? 0 : view_.size(); }
  size_t bytes() const { return static_cast<size_t>(BytesOf(type(), size())); }

  TensorView view() { return view_; }
  ConstTensorView view() const { return view_; }
  /// As of a view: checked. Raw is not.
  template <typename T>
  T* As() {
    return view_.As<T>();
  }
  template <typename T>
  const T* As() const {
    return view_.As<T>();
  }
  template <typename T>
  T* Raw() {
    return view_.Raw<T>();
  }
  template <typename T>
  const T* Raw() const {
    return view_.Raw<T>();
  }

 private:
  struct Free {
    std::shared_ptr<DeviceBackend> owner;  ///< null: the host's heap
    size_t bytes;
    Free() : bytes(0) {}
    Free(std::shared_ptr<DeviceBackend> from, size_t size)
        : owner(std::move(from)), bytes(size) {}
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Free> memory_;
  TensorView view_;
};

}  // namespace headwise
