#include "headwise/tensor/places.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/encoding.h"
#include "headwise/tensor/slice.h"

namespace headwise::places_test {
namespace {

// 1, 2, 3, … in this shape.
Tensor Counted(DType type, const Shape& shape) {
  Tensor tensor(type, shape);
  const TensorView flat(tensor.view().data, type, {tensor.size()});
  for (int64_t i = 0; i < tensor.size(); ++i) {
    Write(flat, static_cast<double>(i + 1), i);
  }
  return tensor;
}

double ReadAt(const ConstTensorView& view, int axis, int64_t place,
              int64_t other) {
  if (view.rank == 1) return Read(view, place);
  return axis == 0 ? Read(view, place, other) : Read(view, other, place);
}

int64_t Others(const ConstTensorView& view, int axis) {
  return view.rank == 1 ? 1 : view.shape[1 - axis];
}

std::vector<int64_t> RandomPlaces(int64_t count, int64_t all, Rng& rng) {
  std::vector<int64_t> places(static_cast<size_t>(all));
  std::iota(places.begin(), places.end(), 0);
  for (int64_t i = 0; i < count; ++i) {
    std::swap(places[i], places[i + static_cast<int64_t>(rng.Below(all - i))]);
  }
  places.resize(static_cast<size_t>(count));
  return places;
}

TEST(Places, SelectTakesEntriesInTheOrderAskedFor) {
  const uint64_t seed = 20;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  const DType types[] = {DType::kF32, DType::kBF16, DType::kI64, DType::kU8};
  for (int round = 0; round < 100; ++round) {
    const DType type = types[rng.Below(4)];
    const int rank = 1 + static_cast<int>(rng.Below(2));
    const int axis = static_cast<int>(rng.Below(static_cast<uint64_t>(rank)));
    const int64_t rows = 1 + static_cast<int64_t>(rng.Below(9));
    const int64_t columns = 1 + static_cast<int64_t>(rng.Below(9));
    const Tensor whole =
        rank == 1 ? Counted(type, {columns}) : Counted(type, {rows, columns});
    // Every stride that a view may have.
    ConstTensorView view = whole.view();
    if (rank == 2 && rng.Below(2) == 1) view = Transposed(view, 0, 1);
    const int64_t all = view.shape[axis];
    const auto count =
        static_cast<int64_t>(rng.Below(static_cast<uint64_t>(all) + 1));
    const auto places = RandomPlaces(count, all, rng);
    const Tensor some = Select(view, axis, places, "w");
    ASSERT_EQ(some.shape(axis), count);
    const ConstTensorView made = some.view();
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < Others(view, axis); ++j) {
        ASSERT_EQ(ReadAt(made, axis, i, j), ReadAt(view, axis, places[i], j));
      }
    }
    // What Select took, Spread puts back among zeros.
    const Tensor back = Spread(made, axis, places, all, "w");
    std::vector<bool> kept(static_cast<size_t>(all));
    for (const int64_t place : places) kept[place] = true;
    for (int64_t i = 0; i < all; ++i) {
      for (int64_t j = 0; j < Others(view, axis); ++j) {
        ASSERT_EQ(ReadAt(back.view(), axis, i, j),
                  kept[i] ? ReadAt(view, axis, i, j) : 0);
      }
    }
  }
}

TEST(Places, MayRepeatAndLieAtAnyAddress) {
  const Tensor whole = Counted(DType::kBF16, {2, 3});
  std::vector<std::byte> bytes(13);
  std::memcpy(bytes.data() + 1, whole.view().data, 12);
  const ConstTensorView odd(bytes.data() + 1, DType::kBF16, {2, 3});
  const Tensor twice = Select(odd, 1, std::vector<int64_t>{2, 2, 0}, "w");
  EXPECT_EQ(Read(twice.view(), 1, 0), 6);
  EXPECT_EQ(Read(twice.view(), 1, 1), 6);
  EXPECT_EQ(Read(twice.view(), 1, 2), 4);
}

// q8_0 of random numbers.
Tensor Blocks(const Shape& shape, Rng& rng) {
  Tensor tensor(DType::kQ8_0, shape);
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  for (float& value : values) value = static_cast<float>(rng.Normal());
  Q8FromFloat(values.data(), tensor.size(),
              static_cast<std::byte*>(tensor.view().data));
  return tensor;
}

TEST(Places, OfBlocksKeepTheirBytes) {
  const uint64_t seed = 21;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  const Tensor whole = Blocks({5, 128}, rng);
  // Rows in any order; columns by blocks, in any order of blocks.
  const std::vector<int64_t> rows = {4, 0, 2};
  std::vector<int64_t> columns;
  for (const int64_t block : {3, 1}) {
    for (int64_t i = 0; i < 32; ++i) columns.push_back(32 * block + i);
  }
  const Tensor picked = Select(whole.view(), 0, rows, "w");
  const Tensor some = Select(picked.view(), 1, columns, "w");
  ASSERT_EQ(ToString(some.view()), "q8_0 [3, 64]");
  const auto* from = whole.Raw<std::byte>();
  const auto* found = some.Raw<std::byte>();
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t b = 0; b < 2; ++b) {
      EXPECT_EQ(std::memcmp(found + (2 * r + b) * 34,
                            from + (4 * rows[r] + (b == 0 ? 3 : 1)) * 34, 34),
                0);
    }
  }
  const Tensor back = Spread(some.view(), 1, columns, 128, "w");
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t c = 0; c < 128; ++c) {
      const bool kept = c / 32 == 1 || c / 32 == 3;
      ASSERT_EQ(Read(back.view(), r, c),
                kept ? Read(whole.view(), rows[r], c) : 0);
    }
  }
}

TEST(Places, ThatCutBlocksAreRefusedByTheTensorAndTheBlock) {
  Rng rng(22);
  const Tensor whole = Blocks({3, 64}, rng);
  std::vector<int64_t> half(16), shifted(32), all(64);
  std::iota(half.begin(), half.end(), 0);
  std::iota(shifted.begin(), shifted.end(), 16);
  std::iota(all.begin(), all.end(), 0);
  const auto refused = [&](auto&& make) {
    try {
      make();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("[o_proj]"), std::string::npos) << text;
      EXPECT_NE(text.find("32 elements of q8_0"), std::string::npos) << text;
    }
  };
  refused([&] { Select(whole.view(), 1, half, "o_proj"); });
  refused([&] { Select(whole.view(), 1, shifted, "o_proj"); });
  refused([&] { Spread(whole.view(), 1, all, 65, "o_proj"); });
  for (int64_t& place : all) ++place;
  refused([&] { Spread(whole.view(), 1, all, 96, "o_proj"); });
  EXPECT_THROW(Select(Transposed(whole.view(), 0, 1), 1,
                      std::vector<int64_t>{0}, "o_proj"),
               Error);
}

TEST(Places, OutsideTheAxisAreRefusedByTheTensorsName) {
  const Tensor whole = Counted(DType::kF32, {2, 3});
  const auto refused = [&](auto&& make) {
    try {
      make();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("model.w"), std::string::npos)
          << error.what();
    }
  };
  const std::vector<int64_t> beyond = {0, 3}, negative = {-1}, one = {0};
  refused([&] { Select(whole.view(), 1, beyond, "model.w"); });
  refused([&] { Select(whole.view(), 0, negative, "model.w"); });
  refused([&] { Select(whole.view(), 2, one, "model.w"); });
  refused([&] { Spread(whole.view(), 1, one, 4, "model.w"); });
  refused([&] { Spread(whole.view(), 0, beyond, 3, "model.w"); });
  refused([&] { Select(ConstTensorView(), 0, one, "model.w"); });
}

}  // namespace
}  // namespace headwise::places_test
