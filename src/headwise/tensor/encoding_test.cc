// The table of encodings: each block encoding is held to what every one
// promises, and to an oracle of its own in float64.
#include "headwise/tensor/encoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/unaligned.h"

namespace headwise::encoding_test {
namespace {

std::vector<ElementEncoding> BlockEncodings() {
  std::vector<ElementEncoding> found;
  for (const ElementEncoding& encoding : kEncodings) {
    if (!encoding.plain()) found.push_back(encoding);
  }
  return found;
}

template <typename Run>
std::string ErrorOf(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return "";
}

void ExpectNames(const std::string& text, const ElementEncoding& encoding) {
  EXPECT_NE(text.find(encoding.name), std::string::npos) << text;
}

std::vector<float> RandomValues(int64_t count, double scale, Rng& rng) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(scale * rng.Normal());
  return values;
}

Tensor Encoded(const ElementEncoding& encoding, const Shape& shape,
               double scale, Rng& rng) {
  Tensor tensor(encoding.type, shape);
  encoding.from_float(RandomValues(tensor.size(), scale, rng).data(),
                      tensor.size(),
                      static_cast<std::byte*>(tensor.view().data));
  return tensor;
}

std::vector<float> Decoded(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  EncodingOf(tensor.type())
      .to_float(static_cast<const std::byte*>(tensor.view().data),
                tensor.size(), values.data());
  return values;
}

// 2^e · m of 16 bits, by arithmetic alone.
double OracleF16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  const double size = exponent == 0
                          ? std::ldexp(fraction, -24)
                          : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

TEST(Encoding, EachTypeHasANameAndASizeOrBlocks) {
  std::set<std::string> names;
  for (const ElementEncoding& encoding : kEncodings) {
    EXPECT_TRUE(names.insert(encoding.name).second) << encoding.name;
    EXPECT_STREQ(Name(encoding.type), encoding.name);
    EXPECT_EQ(BytesOf(encoding.type, 3 * encoding.block), 3 * encoding.bytes);
    EXPECT_EQ(IsPlain(encoding.type), encoding.plain());
    EXPECT_EQ(encoding.to_float == nullptr, encoding.plain());
    if (encoding.plain()) {
      EXPECT_EQ(ElementSize(encoding.type), encoding.bytes);
    } else {
      ExpectNames(ErrorOf([&] { ElementSize(encoding.type); }), encoding);
      ExpectNames(ErrorOf([&] { BytesOf(encoding.type, 1); }), encoding);
    }
  }
  EXPECT_EQ(BytesOf(DType::kQ8_0, 64), 68);
  EXPECT_STREQ(Name(static_cast<DType>(250)), "?");
}

TEST(Encoding, BlocksOfZeroBytesAreZerosAtAnyAddress) {
  for (const ElementEncoding& encoding : BlockEncodings()) {
    SCOPED_TRACE(encoding.name);
    const std::vector<std::byte> bytes(
        static_cast<size_t>(2 * encoding.bytes + 1));
    std::vector<float> values(static_cast<size_t>(2 * encoding.block), 1);
    encoding.to_float(bytes.data() + 1, 2 * encoding.block, values.data());
    for (const float value : values) EXPECT_EQ(value, 0);
  }
}

TEST(Encoding, ValuesThatAnEncodingHoldsStayTheSame) {
  const uint64_t seed = 31;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  for (const ElementEncoding& encoding : BlockEncodings()) {
    SCOPED_TRACE(encoding.name);
    if (encoding.from_float == nullptr) continue;
    for (const double scale : {1e-3, 1.0, 1e4}) {
      const Tensor once =
          Encoded(encoding, {4, 2 * encoding.block}, scale, rng);
      const std::vector<float> values = Decoded(once);
      Tensor twice(encoding.type, {4, 2 * encoding.block});
      encoding.from_float(values.data(), twice.size(),
                          static_cast<std::byte*>(twice.view().data));
      EXPECT_EQ(Decoded(twice), values);
    }
  }
}

TEST(Encoding, Q8BlocksAreTheirScaleTimesTheirIntegers) {
  const uint64_t seed = 32;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint8_t> bytes(34);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.Below(256));
    bytes[1] &= 0xbf;  // finite
    std::vector<float> values(32);
    Q8ToFloat(reinterpret_cast<const std::byte*>(bytes.data()), 32,
              values.data());
    const double scale =
        OracleF16(static_cast<uint16_t>(bytes[0] | bytes[1] << 8));
    for (size_t i = 0; i < 32; ++i) {
      const double integer =
          bytes[2 + i] < 128 ? bytes[2 + i] : bytes[2 + i] - 256.0;
      ASSERT_EQ(values[i], static_cast<float>(scale * integer));
    }
  }
}

TEST(Encoding, Q8IsWithinHalfAStepAndTheRoundingOfItsScale) {
  const uint64_t seed = 33;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  for (int round = 0; round < 100; ++round) {
    const double size = std::pow(10, 8 * rng.Uniform() - 2);  // to 1e6
    std::vector<float> values = RandomValues(64, size / 8, rng);
    if (round % 4 == 0) values[5] = static_cast<float>(size);
    std::vector<std::byte> bytes(68);
    Q8FromFloat(values.data(), 64, bytes.data());
    std::vector<float> found(64);
    Q8ToFloat(bytes.data(), 64, found.data());
    for (size_t block = 0; block < 2; ++block) {
      double largest = 0;
      for (size_t i = 32 * block; i < 32 * block + 32; ++i) {
        largest = std::max<double>(largest, std::abs(values[i]));
      }
      const double step = largest / 127;
      for (size_t i = 32 * block; i < 32 * block + 32; ++i) {
        const double wanted = values[i];
        ASSERT_NEAR(found[i], wanted,
                    0.5001 * step + std::abs(wanted) * 0x1.1p-11 + 1e-5);
      }
    }
  }
}

TEST(Encoding, Q8OfNumbersBelowItsScalesIsZero) {
  std::vector<float> values(32, 1e-40f), found(32, 1);
  values[3] = -3e-39f;
  std::vector<std::byte> bytes(34);
  Q8FromFloat(values.data(), 32, bytes.data());
  Q8ToFloat(bytes.data(), 32, found.data());
  for (const float value : found) EXPECT_EQ(value, 0);
}

// A sign, two bits of exponent and one of fraction, by arithmetic alone.
double OracleFp4(int bits) {
  const int exponent = bits >> 1 & 3, fraction = bits & 1;
  const double size =
      exponent == 0 ? fraction * 0.5 : std::ldexp(2 + fraction, exponent - 2);
  return (bits & 8) != 0 ? -size : size;
}

TEST(Encoding, Fp4BlocksAreTheirScaleTimesTheirNumbers) {
  const uint64_t seed = 35;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  std::vector<float> values(32);
  std::vector<uint8_t> bytes(17);
  for (int exponent = 0; exponent < 255; ++exponent) {
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.Below(256));
    bytes[0] = static_cast<uint8_t>(exponent);
    Fp4ToFloat(reinterpret_cast<const std::byte*>(bytes.data()), 32,
               values.data());
    for (size_t i = 0; i < 32; ++i) {
      const int pair = bytes[1 + i % 16];
      const int bits = i < 16 ? pair & 15 : pair >> 4;
      ASSERT_EQ(values[i], static_cast<float>(
                               std::ldexp(OracleFp4(bits), exponent - 127)));
    }
  }
  bytes[0] = 255;
  Fp4ToFloat(reinterpret_cast<const std::byte*>(bytes.data()), 32,
             values.data());
  for (const float value : values) EXPECT_TRUE(std::isnan(value));
}

TEST(Encoding, Fp4TakesTheNearestNumberOfItsScale) {
  const uint64_t seed = 36;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  for (int round = 0; round < 100; ++round) {
    const double size = std::pow(10, 60 * rng.Uniform() - 30);
    const std::vector<float> values = RandomValues(32, size, rng);
    std::vector<std::byte> bytes(17);
    std::vector<float> found(32);
    Fp4FromFloat(values.data(), 32, bytes.data());
    Fp4ToFloat(bytes.data(), 32, found.data());
    double largest = 0;
    for (const float value : values) {
      largest = std::max<double>(largest, std::abs(value));
    }
    const double scale = std::exp2(std::floor(std::log2(largest)) - 2);
    for (size_t i = 0; i < 32; ++i) {
      double nearest = 1e300;
      for (int bits = 0; bits < 16; ++bits) {
        const double number = scale * OracleFp4(bits);
        if (std::abs(number - values[i]) < std::abs(nearest - values[i])) {
          nearest = number;
        }
      }
      ASSERT_EQ(std::abs(found[i] - values[i]), std::abs(nearest - values[i]))
          << values[i] << " as " << found[i] << ", nearest " << nearest;
    }
  }
  // Halfway: the even one; beyond 6: 6.
  std::vector<float> ties(32, 0), found(32);
  const float from[] = {0.25f, 0.75f, 1.25f, -2.5f, 5, 7.5f};
  const float to[] = {0, 1, 1, -2, 4, 6};
  std::copy(std::begin(from), std::end(from), ties.begin());
  std::vector<std::byte> bytes(17);
  Fp4FromFloat(ties.data(), 32, bytes.data());
  Fp4ToFloat(bytes.data(), 32, found.data());
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(found[i], to[i]) << from[i];
}

TEST(Encoding, ViewsOfBlocksAreSlicedBetweenThem) {
  const uint64_t seed = 34;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  for (const ElementEncoding& encoding : BlockEncodings()) {
    SCOPED_TRACE(encoding.name);
    const int64_t block = encoding.block, columns = 3 * block;
    const Tensor tensor = Encoded(encoding, {4, columns}, 1, rng);
    const std::vector<float> values = Decoded(tensor);
    const ConstTensorView whole = tensor.view();
    EXPECT_TRUE(IsAligned(Moved(whole, block)));
    const ConstTensorView some = Columns(Rows(whole, 1, 3), block, columns);
    for (int64_t r = 0; r < 2; ++r) {
      for (int64_t c = 0; c < 2 * block; ++c) {
        const auto at = static_cast<size_t>((r + 1) * columns + block + c);
        ASSERT_EQ(Read(some, r, c), values[at]);
        ASSERT_EQ(Read(Transposed(some, 0, 1), c, r), values[at]);
      }
    }
    ASSERT_EQ(Read(At(whole, 0, 2), 5), values[2 * columns + 5]);
    EXPECT_EQ(Columns(whole, block, block).size(), 0);
    for (const auto& [begin, end] :
         {std::pair(block / 2, columns), {int64_t{0}, block + 1}}) {
      ExpectNames(ErrorOf([&] { Columns(whole, begin, end); }), encoding);
    }
    ExpectNames(ErrorOf([&] { At(whole, 1, 0); }), encoding);
    ExpectNames(ErrorOf([&] { Moved(whole, 1); }), encoding);
    ExpectNames(ErrorOf([&] { Slice(Transposed(whole, 0, 1), 0, 1, 2); }),
                encoding);
  }
}

TEST(Encoding, SingleElementsOfBlocksAreNotWritten) {
  for (const ElementEncoding& encoding : BlockEncodings()) {
    Tensor tensor(encoding.type, {encoding.block});
    ExpectNames(ErrorOf([&] { Write(tensor.view(), 1, 0); }), encoding);
    EXPECT_THROW(tensor.As<float>(), Error);
    EXPECT_THROW(tensor.As<int8_t>(), Error);
    EXPECT_THROW(tensor.As<uint8_t>(), Error);
  }
}

TEST(Encoding, ImpossibleTensorsAreRefused) {
  const int64_t large = int64_t{1} << 61;
  for (const ElementEncoding& encoding : BlockEncodings()) {
    SCOPED_TRACE(encoding.name);
    const DType type = encoding.type;
    const int64_t block = encoding.block;
    EXPECT_EQ(Tensor(type, {2, block}).bytes(),
              static_cast<size_t>(2 * encoding.bytes));
    EXPECT_EQ(Tensor(type, {0, block}).bytes(), 0u);
    ExpectNames(ErrorOf([&] { Tensor(type, {block, block + 1}); }), encoding);
    ExpectNames(ErrorOf([&] { Tensor(type, {block, 1}); }), encoding);
    ExpectNames(ErrorOf([&] { Tensor(type, {}); }), encoding);
    EXPECT_THROW(Tensor(type, {-1, block}), Error);
    EXPECT_THROW(Tensor(type, {1, -block}), Error);
    // Elements overflow, and then bytes alone where they are more.
    EXPECT_THROW(Tensor(type, {4, large}), Error);
    EXPECT_THROW(Tensor(type, {large / block, 4 * block}), Error);
    if (encoding.bytes > block) {
      EXPECT_THROW(CheckedBytes(type, {INT64_MAX / block * block}, "w"), Error);
    }
  }
}

TEST(Encoding, BlocksAsBytesAreTheSameMemory) {
  const Tensor tensor(DType::kQ8_0, {4, 96});
  const ConstTensorView some = Columns(Rows(tensor.view(), 1, 3), 32, 96);
  const ConstTensorView bytes = AsBytes(some);
  EXPECT_EQ(ToString(bytes), "u8 [2, 68]");
  EXPECT_EQ(bytes.stride[0], 3 * 34);
  EXPECT_EQ(bytes.data, some.data);
  EXPECT_EQ(ToString(AsBytes(Transposed(some, 0, 1))), "u8 [68, 2]");
  EXPECT_EQ(BytesOf(ConstTensorView(tensor.view())), 4 * 3 * 34);
  EXPECT_EQ(BytesOf(ConstTensorView()), 0);
  ConstTensorView gaps = some;
  gaps.stride[1] = 2;
  EXPECT_THROW(AsBytes(gaps), Error);
  const Tensor plain(DType::kF32, {3});
  EXPECT_EQ(ToString(AsBytes(plain.view())), "f32 [3]");
}

}  // namespace
}  // namespace headwise::encoding_test
