#include "headwise/tensor/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/tensor/element.h"

namespace headwise::slice_test {
namespace {

using testing::ElementsAre;

// 0, 1, 2, … in this shape.
Tensor Counted(DType type, const Shape& shape) {
  Tensor tensor(type, shape);
  const TensorView flat(tensor.view().data, type, {tensor.size()});
  for (int64_t i = 0; i < tensor.size(); ++i) {
    Write(flat, static_cast<double>(i), i);
  }
  return tensor;
}

// All elements, the last axis first.
std::vector<double> Elements(const ConstTensorView& view) {
  std::vector<double> values;
  for (int64_t n = 0; n < view.size(); ++n) {
    int64_t at = 0, left = n;
    for (int i = view.rank - 1; i >= 0; --i) {
      at += left % view.shape[i] * view.stride[i];
      left /= view.shape[i];
    }
    values.push_back(Read(Moved(view, at), 0));
  }
  return values;
}

TEST(Slice, TakesRowsColumnsAndAnyAxisOfAnyType) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kI64}) {
    const Tensor t = Counted(type, {3, 4});
    EXPECT_THAT(Elements(Rows(t.view(), 1, 2)), ElementsAre(4, 5, 6, 7));
    EXPECT_THAT(Elements(Columns(t.view(), 2, 4)),
                ElementsAre(2, 3, 6, 7, 10, 11));
  }
  const Tensor cube = Counted(DType::kF16, {2, 3, 2});
  EXPECT_THAT(Elements(Slice(cube.view(), 1, 1, 3)),
              ElementsAre(2, 3, 4, 5, 8, 9, 10, 11));
  EXPECT_EQ(Rows(cube.view(), 1, 1).size(), 0);
}

TEST(Slice, AnEntryOfAnAxisIsAViewOfLowerRank) {
  const Tensor cube = Counted(DType::kF32, {2, 3, 2});
  EXPECT_THAT(Elements(At(cube.view(), 1, 2)), ElementsAre(4, 5, 10, 11));
  EXPECT_EQ(At(cube.view(), 1, 2).rank, 2);
  EXPECT_THAT(Elements(At(At(cube.view(), 0, 1), 1, 0)), ElementsAre(6, 8, 10));
}

TEST(Slice, AxesChangePlaces) {
  const Tensor t = Counted(DType::kF32, {2, 3});
  EXPECT_THAT(Elements(Transposed(t.view(), 0, 1)),
              ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(Slice, WhatIsNotGivenStaysSo) {
  const TensorView none;
  EXPECT_FALSE(Rows(none, 0, 4));
  EXPECT_FALSE(Columns(none, 3, 4));
  EXPECT_FALSE(At(none, 2, 1));
  EXPECT_FALSE(Reshaped(none, {7}));
  EXPECT_FALSE(Broadcast(none, {7}));
}

TEST(Slice, WhatAViewDoesNotHaveIsRefused) {
  const Tensor t = Counted(DType::kF32, {3, 4});
  EXPECT_THROW(Rows(t.view(), 1, 4), Error);
  EXPECT_THROW(Rows(t.view(), -1, 2), Error);
  EXPECT_THROW(Rows(t.view(), 2, 1), Error);
  EXPECT_THROW(Slice(t.view(), 2, 0, 1), Error);
  EXPECT_THROW(At(t.view(), 1, 4), Error);
  EXPECT_THROW(Transposed(t.view(), 0, 2), Error);
}

TEST(Slice, HeadsOfARowAreItsColumnsInAnotherShape) {
  // Two sequences of two rows, each of queries (2 heads of 3) and a key.
  const Tensor t = Counted(DType::kF32, {4, 9});
  const ConstTensorView q = Reshaped(Columns(t.view(), 0, 6), {2, 2, 2, 3});
  EXPECT_EQ(q.stride[0], 18);
  EXPECT_EQ(q.stride[1], 9);
  EXPECT_EQ(q.stride[2], 3);
  EXPECT_EQ(Read(q, 1, 0, 1, 2), 23);
  const ConstTensorView tokens = Reshaped(q, {4, 2, 3});
  EXPECT_EQ(Elements(tokens), Elements(q));
  EXPECT_EQ(tokens.stride[0], 9);
}

TEST(Slice, ReshapingKeepsTheOrderOfElementsOrIsRefused) {
  const uint64_t seed = 77;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  int allowed = 0, refused = 0;
  for (int round = 0; round < 500; ++round) {
    const int64_t sizes[] = {1, 2, 3, 4};
    const auto size = [&] { return sizes[rng.Below(4)]; };
    const Tensor t = Counted(DType::kF32, {size(), size(), size(), size()});
    ConstTensorView view = t.view();
    const int axis = static_cast<int>(rng.Below(4));
    view = Slice(view, axis, 0,
                 1 + static_cast<int64_t>(rng.Below(view.shape[axis])));
    if (rng.Below(3) == 0) view = Transposed(view, 0, 2);
    if (rng.Below(3) == 0) {
      const ConstTensorView one = At(view, 3, 0);
      view = Broadcast(one, {2, one.shape[0], one.shape[1], one.shape[2]});
    }
    // Axes split and joined by chance.
    std::vector<int64_t> shape = {1, view.size(), 1};
    for (const int64_t part : {2, 3, 2}) {
      const size_t at = rng.Below(shape.size());
      if (shape[at] % part != 0) continue;
      shape[at] /= part;
      shape.insert(shape.begin() + static_cast<int64_t>(at), part);
    }
    try {
      const ConstTensorView other =
          Reshaped(view, std::span<const int64_t>(shape));
      EXPECT_EQ(Elements(other), Elements(view));
      ++allowed;
    } catch (const Error&) {
      EXPECT_FALSE(IsDense(view));
      ++refused;
    }
  }
  EXPECT_GT(allowed, 50);
  EXPECT_GT(refused, 50);
  const Tensor t = Counted(DType::kF32, {3, 4});
  EXPECT_THROW(Reshaped(t.view(), {13}), Error);
  EXPECT_THROW(Reshaped(Transposed(t.view(), 0, 1), {12}), Error);
}

TEST(Slice, BroadcastRepeatsAlongNewAndThinAxes) {
  const Tensor row = Counted(DType::kF32, {3});
  EXPECT_THAT(Elements(Broadcast(row.view(), {2, 3})),
              ElementsAre(0, 1, 2, 0, 1, 2));
  const ConstTensorView column = Reshaped(row.view(), {3, 1});
  EXPECT_THAT(Elements(Broadcast(column, {3, 2})),
              ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THROW(Broadcast(row.view(), {3, 2}), Error);
  EXPECT_THROW(Broadcast(column, {3}), Error);
}

TEST(Slice, DenseIsWhatLiesOneBehindTheOther) {
  const Tensor t = Counted(DType::kF32, {3, 4});
  EXPECT_TRUE(IsDense(t.view()));
  EXPECT_TRUE(IsDense(Rows(t.view(), 1, 3)));
  EXPECT_FALSE(IsDense(Columns(t.view(), 1, 3)));
  EXPECT_TRUE(IsDense(Rows(Columns(t.view(), 1, 3), 0, 1)));
  EXPECT_TRUE(IsDense(Columns(t.view(), 1, 1)));  // of nothing
  EXPECT_FALSE(IsDense(Broadcast(At(t.view(), 0, 0), {3, 4})));
  EXPECT_TRUE(IsDense({}));
}

TEST(Slice, HostVectorsAreViews) {
  std::vector<float> values = {1, 2};
  const TensorView view = ViewOf(values);
  Write(view, 5, 1);
  EXPECT_EQ(values[1], 5);
  const std::vector<int32_t> ids = {4, 5, 6};
  const ConstTensorView constant = ViewOf(ids);
  EXPECT_EQ(constant.type, DType::kI32);
  EXPECT_EQ(constant.shape[0], 3);
}

}  // namespace
}  // namespace headwise::slice_test
