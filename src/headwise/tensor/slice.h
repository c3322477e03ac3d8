// Parts and other shapes of a view: pure arithmetic on its pointer, sizes and
// strides, whatever its type and device. A view that is not given stays so.
// Throw Error(kInvalidArgument) for what a view does not have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "headwise/tensor.h"
#include "headwise/tensor/encoding.h"

namespace headwise {

// What the functions below do, apart from the kind of pointer.
struct ViewLayout {
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> stride{};
};
// Throws unless 0 ≤ axis < rank and 0 ≤ begin ≤ end ≤ the axis's size, between
// blocks where there are any.
void CheckSlice(const ConstTensorView& view, int axis, int64_t begin,
                int64_t end);
// The strides of the same elements in the same order under another shape.
// Throws unless there are as many and no copy is needed.
ViewLayout ReshapedLayout(const ConstTensorView& view, const Shape& shape);
// Throws unless the view's sizes are the last of the shape's, or 1.
ViewLayout BroadcastLayout(const ConstTensorView& view, const Shape& shape);

// Whether elements lie one behind the other, the last axis innermost.
bool IsDense(const ConstTensorView& view);
// Whether two views have the same sizes.
bool SameShape(const ConstTensorView& a, const ConstTensorView& b);

template <typename Void>
BasicView<Void> WithLayout(BasicView<Void> view, const ViewLayout& layout) {
  view.rank = layout.rank;
  view.shape = layout.shape;
  view.stride = layout.stride;
  return view;
}

// The same sizes and strides from `elements` elements further on: whole blocks.
template <typename Void>
BasicView<Void> Moved(BasicView<Void> view, int64_t elements) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
  view.data = static_cast<Byte*>(view.data) + ByteOffset(view.type, elements);
  return view;
}

// [begin, end) of an axis.
template <typename Void>
BasicView<Void> Slice(BasicView<Void> view, int axis, int64_t begin,
                      int64_t end) {
  if (!view) return view;
  CheckSlice(view, axis, begin, end);
  view.shape[axis] = end - begin;
  return Moved(view, begin * view.stride[axis]);
}

// [begin, end) of the first axis, of the last one.
template <typename Void>
BasicView<Void> Rows(const BasicView<Void>& view, int64_t begin, int64_t end) {
  return Slice(view, 0, begin, end);
}
template <typename Void>
BasicView<Void> Columns(const BasicView<Void>& view, int64_t begin,
                        int64_t end) {
  return Slice(view, view.rank - 1, begin, end);
}

// Entry `index` of an axis, which goes.
template <typename Void>
BasicView<Void> At(const BasicView<Void>& view, int axis, int64_t index) {
  if (!view) return view;
  BasicView<Void> one = Slice(view, axis, index, index + 1);
  for (int i = axis; i + 1 < one.rank; ++i) {
    one.shape[i] = one.shape[i + 1];
    one.stride[i] = one.stride[i + 1];
  }
  --one.rank;
  one.shape[one.rank] = one.stride[one.rank] = 0;
  return one;
}

// Two axes in each other's place.
template <typename Void>
BasicView<Void> Transposed(BasicView<Void> view, int a, int b) {
  if (!view) return view;
  CheckSlice(view, a, 0, 0);
  CheckSlice(view, b, 0, 0);
  std::swap(view.shape[a], view.shape[b]);
  std::swap(view.stride[a], view.stride[b]);
  return view;
}

// The same elements in the same order under another shape: axes are split,
// joined where they lie end to end, added and dropped where they are 1.
template <typename Void>
BasicView<Void> Reshaped(const BasicView<Void>& view, const Shape& shape) {
  return view ? WithLayout(view, ReshapedLayout(view, shape)) : view;
}

// Repeated to a larger shape, by strides of 0: new axes come first, and axes
// of 1 grow.
template <typename Void>
BasicView<Void> Broadcast(const BasicView<Void>& view, const Shape& shape) {
  return view ? WithLayout(view, BroadcastLayout(view, shape)) : view;
}

// The type of a view's elements, from C++'s.
template <typename T>
constexpr DType TypeOf() {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Plain, float>) {
    return DType::kF32;
  } else if constexpr (std::is_same_v<Plain, double>) {
    return DType::kF64;
  } else if constexpr (std::is_same_v<Plain, int32_t>) {
    return DType::kI32;
  } else {
    static_assert(std::is_same_v<Plain, int64_t>);
    return DType::kI64;
  }
}

// Host memory as a vector.
template <typename T, size_t kExtent>
auto ViewOf(std::span<T, kExtent> values) {
  using Void = std::conditional_t<std::is_const_v<T>, const void, void>;
  return BasicView<Void>(values.data(), TypeOf<T>(),
                         {static_cast<int64_t>(values.size())});
}
template <typename Range>
auto ViewOf(Range& values) {
  return ViewOf(std::span(values));
}

}  // namespace headwise
