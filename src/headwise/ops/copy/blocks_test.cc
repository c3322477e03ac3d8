// Blocks of elements with scales: a copy makes them floats, or moves them as
// they are.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/copy/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/tensor/encoding.h"

namespace headwise::copy_blocks_test {
namespace {

Tensor Blocks(const Shape& shape, Rng& rng) {
  Tensor tensor(DType::kQ8_0, shape);
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  for (float& value : values) value = static_cast<float>(rng.Normal());
  Q8FromFloat(values.data(), tensor.size(), tensor.Raw<std::byte>());
  return tensor;
}

void ExpectSame(const ConstTensorView& found, const ConstTensorView& wanted) {
  ASSERT_EQ(ToString(found), ToString(wanted));
  for (int64_t n = 0; n < found.size(); ++n) {
    ASSERT_EQ(std::memcmp(Moved(found, PlaceOf(found, n)).data,
                          Moved(wanted, PlaceOf(wanted, n)).data,
                          ElementSize(found.type)),
              0)
        << n;
  }
}

TEST(CopyOfBlocks, ACopyMakesThemWhatTheReferenceReads) {
  const uint64_t seed = 41;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  const auto entry = ContextFor("copy", "cpu.blocks", 3);
  const auto reference = ContextFor("copy", "reference");
  // Longer than a task's share, too.
  for (const int64_t rows : {1, 7, 1100}) {
    const Tensor whole = Blocks({rows, 96}, rng);
    for (const bool some : {false, true}) {
      const ConstTensorView from =
          some ? Columns(whole.view(), 32, 96) : whole.view();
      Tensor found(DType::kF32, {rows, 100}), wanted(DType::kF32, {rows, 100});
      const auto to = [&](Tensor& all) {
        return Columns(all.view(), 4, 4 + from.shape[1]);
      };
      Copy(*entry, from, to(found));
      if (rows < 10) {
        Copy(*reference, from, to(wanted));
      } else {
        for (int64_t n = 0; n < from.size(); ++n) {
          const int64_t r = n / from.shape[1], c = n % from.shape[1];
          Write(to(wanted), Read(from, r, c), r, c);
        }
      }
      ExpectSame(found.view(), wanted.view());
    }
  }
}

TEST(CopyOfBlocks, TurnedOrAsHalvesOrByRowTheyAreReadAllTheSame) {
  Rng rng(42);
  Context context({.threads = 1, .implementations = ""});
  const Tensor whole = Blocks({4, 64}, rng);
  Tensor turned(DType::kF32, {64, 4}), half(DType::kBF16, {4, 64});
  Copy(context, Transposed(std::as_const(whole).view(), 0, 1), turned.view());
  Copy(context, whole.view(), half.view());
  const std::vector<int32_t> rows = {3, 1};
  Tensor gathered(DType::kF32, {2, 64}), blocks(DType::kQ8_0, {2, 64});
  GatherRows(context, whole.view(), ViewOf(rows), gathered.view());
  GatherRows(context, whole.view(), ViewOf(rows), blocks.view());
  for (int64_t r = 0; r < 4; ++r) {
    for (int64_t c = 0; c < 64; ++c) {
      const double value = Read(whole.view(), r, c);
      ASSERT_EQ(Read(turned.view(), c, r), value);
      ASSERT_EQ(Read(half.view(), r, c),
                FromBf16(ToBf16(static_cast<float>(value))));
      if (r >= 2) continue;
      ASSERT_EQ(Read(gathered.view(), r, c), Read(whole.view(), rows[r], c));
      ASSERT_EQ(Read(blocks.view(), r, c), Read(whole.view(), rows[r], c));
    }
  }
  const std::vector<int32_t> places = {2, 0};
  Tensor scattered(DType::kQ8_0, {4, 64});
  ScatterRows(context, blocks.view(), ViewOf(places), scattered.view());
  for (int64_t c = 0; c < 64; ++c) {
    ASSERT_EQ(Read(scattered.view(), 2, c), Read(blocks.view(), 0, c));
    ASSERT_EQ(Read(scattered.view(), 0, c), Read(blocks.view(), 1, c));
    ASSERT_EQ(Read(scattered.view(), 1, c), 0);
  }
}

// Their bytes, wherever they go.
void ExpectBytesStay(Context& context, Rng& rng) {
  const Tensor whole = Blocks({6, 96}, rng);
  const ConstTensorView some = Columns(Rows(whole.view(), 1, 5), 32, 96);
  const Tensor there = ToDevice(context, some);
  ASSERT_EQ(there.type(), DType::kQ8_0);
  const Tensor back = ToHost(context, there.view());
  ExpectSame(AsBytes(std::as_const(back).view()), AsBytes(some));
}

TEST(CopyOfBlocks, MoveAsTheirBytes) {
  Rng rng(43);
  Context context({.threads = 2, .implementations = ""});
  ExpectBytesStay(context, rng);
  if (const auto device = ContextFor("copy", "cuda")) {
    Context cuda({.threads = 1, .device = Device::Cuda()});
    ExpectBytesStay(cuda, rng);
    const Tensor there = ToDevice(cuda, Blocks({2, 32}, rng).view());
    Tensor f32(cuda, DType::kF32, {2, 32});
    EXPECT_THROW(Copy(cuda, there.view(), f32.view()), Error);
  }
  Tensor filled = Blocks({2, 32}, rng);
  Fill(context, 0, filled.view());
  EXPECT_EQ(Read(filled.view(), 1, 3), 0);
}

template <typename Run>
void ExpectRefused(const char* what, const Run& run) {
  SCOPED_TRACE(what);
  try {
    run();
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("q8_0"), std::string::npos)
        << error.what();
  }
}

TEST(CopyOfBlocks, AreNotWrittenByCopies) {
  Rng rng(44);
  Context context({.threads = 1, .implementations = ""});
  Tensor blocks = Blocks({2, 32}, rng), f32(DType::kF32, {2, 32}),
         whole(DType::kI32, {2, 32}), cache(DType::kF32, {1, 4, 32});
  const Tensor row = Blocks({1, 1, 32}, rng);
  const std::vector<int32_t> held = {0};
  ExpectRefused("f32 to blocks",
                [&] { Copy(context, f32.view(), blocks.view()); });
  ExpectRefused("i32 to blocks",
                [&] { Copy(context, whole.view(), blocks.view()); });
  ExpectRefused("blocks to i32",
                [&] { Copy(context, blocks.view(), whole.view()); });
  ExpectRefused("a cache", [&] {
    AppendRows(context, row.view(), ViewOf(held), cache.view());
  });
  EXPECT_THROW(Fill(context, 1, blocks.view()), Error);
}

// As a file may claim them.
TEST(CopyOfBlocks, RowsThatCutBlocksAreRefusedBeforeTheyAreRead) {
  Rng rng(46);
  Context context({.threads = 1, .implementations = ""});
  const Tensor blocks = Blocks({3, 32}, rng);
  const void* const data = blocks.view().data;
  ConstTensorView cut(data, DType::kQ8_0, {2, 32});
  cut.stride[0] = 33;
  const ConstTensorView odd(data, DType::kQ8_0, {2, 33});
  for (const ConstTensorView& view : {cut, odd}) {
    Tensor f32(DType::kF32, {2, view.shape[1]});
    ExpectRefused("as f32", [&] { Copy(context, view, f32.view()); });
    ExpectRefused("as they are", [&] { ToHost(context, view); });
  }
}

}  // namespace
}  // namespace headwise::copy_blocks_test
