// The bytes of a GGUF file.
#include "headwise/format/gguf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "headwise/error.h"

namespace headwise::gguf_test {
namespace {

template <typename T>
T At(const std::string& bytes, size_t& place) {
  T value;
  std::memcpy(&value, bytes.data() + place, sizeof(T));
  place += sizeof(T);
  return value;
}

std::string TextAt(const std::string& bytes, size_t& place) {
  const auto size = At<uint64_t>(bytes, place);
  place += size;
  return bytes.substr(place - size, size);
}

std::string Written(const GgufWriter& writer) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("gguf_test." + std::to_string(::getpid()));
  writer.Write(path);
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(path);
  return bytes;
}

TEST(Gguf, HoldsMetadataAndAlignedTensorsWithTheFastestAxisFirst) {
  GgufWriter writer;
  writer.AddText("general.architecture", "llama");
  writer.AddCounts("heads", std::vector<int64_t>{3, 1});
  for (const char* name : {"a", "b"}) {
    writer.AddTensor(name, DType::kF32, {2, 3}, [] {
      Tensor tensor(DType::kF32, {2, 3});
      for (int i = 0; i < 6; ++i) tensor.As<float>()[i] = static_cast<float>(i);
      return tensor;
    });
  }
  const std::string bytes = Written(writer);
  EXPECT_EQ(bytes.substr(0, 4), "GGUF");
  size_t place = 4;
  EXPECT_EQ(At<uint32_t>(bytes, place), 3u);
  EXPECT_EQ(At<uint64_t>(bytes, place), 2u);
  EXPECT_EQ(At<uint64_t>(bytes, place), 2u);
  EXPECT_EQ(TextAt(bytes, place), "general.architecture");
  EXPECT_EQ(At<uint32_t>(bytes, place), 8u);
  EXPECT_EQ(TextAt(bytes, place), "llama");
  EXPECT_EQ(TextAt(bytes, place), "heads");
  EXPECT_EQ(At<uint32_t>(bytes, place), 9u);
  EXPECT_EQ(At<uint32_t>(bytes, place), 5u);
  EXPECT_EQ(At<uint64_t>(bytes, place), 2u);
  EXPECT_EQ(At<int32_t>(bytes, place), 3);
  EXPECT_EQ(At<int32_t>(bytes, place), 1);
  for (const uint64_t offset : {0, 32}) {
    TextAt(bytes, place);
    EXPECT_EQ(At<uint32_t>(bytes, place), 2u);
    EXPECT_EQ(At<uint64_t>(bytes, place), 3u);
    EXPECT_EQ(At<uint64_t>(bytes, place), 2u);
    EXPECT_EQ(At<uint32_t>(bytes, place), 0u);
    EXPECT_EQ(At<uint64_t>(bytes, place), offset);
  }
  place = (place + 31) / 32 * 32;
  EXPECT_EQ(bytes.size(), place + 64);
  place += 32 + 4;
  EXPECT_EQ(At<float>(bytes, place), 1.f);
}

TEST(Gguf, HoldsBlocksAsTheyAreStored) {
  const auto make = [] {
    Tensor tensor(DType::kQ8_0, {3, 64});
    for (size_t i = 0; i < tensor.bytes(); ++i) {
      tensor.Raw<uint8_t>()[i] = static_cast<uint8_t>(7 * i + 1);
    }
    return tensor;
  };
  GgufWriter writer;
  for (const char* name : {"a", "b"}) {
    writer.AddTensor(name, DType::kQ8_0, {3, 64}, make);
  }
  const std::string bytes = Written(writer);
  size_t place = 24;
  for (const uint64_t offset : {0, 224}) {  // 3 · 2 · 34, then to 32
    TextAt(bytes, place);
    EXPECT_EQ(At<uint32_t>(bytes, place), 2u);
    EXPECT_EQ(At<uint64_t>(bytes, place), 64u);
    EXPECT_EQ(At<uint64_t>(bytes, place), 3u);
    EXPECT_EQ(At<uint32_t>(bytes, place), 8u);
    EXPECT_EQ(At<uint64_t>(bytes, place), offset);
  }
  place = (place + 31) / 32 * 32;
  ASSERT_EQ(bytes.size(), place + 448);
  const Tensor tensor = make();
  for (const size_t offset : {size_t{0}, size_t{224}}) {
    EXPECT_EQ(
        std::memcmp(bytes.data() + place + offset, tensor.Raw<uint8_t>(), 204),
        0);
  }
}

TEST(Gguf, RefusesSizesThatCannotBe) {
  GgufWriter writer;
  const auto none = [] { return Tensor(); };
  const int64_t large = int64_t{1} << 40;
  EXPECT_THROW(writer.AddTensor("a", DType::kQ8_0, {3, 33}, none), Error);
  EXPECT_THROW(writer.AddTensor("a", DType::kQ8_0, {64, 1}, none), Error);
  EXPECT_THROW(writer.AddTensor("a", DType::kF32, {large, large}, none), Error);
  EXPECT_THROW(writer.AddTensor("a", DType::kF32, {-1}, none), Error);
}

TEST(Gguf, RefusesNumbersThatItsTypesCannotHold) {
  GgufWriter writer;
  writer.AddCount("a", 4294967295);
  EXPECT_THROW(writer.AddCount("b", 4294967296), Error);
  EXPECT_THROW(writer.AddCount("b", -1), Error);
  EXPECT_THROW(writer.AddCounts("b", std::vector<int64_t>{1, 2147483648}),
               Error);
}

TEST(Gguf, RefusesRepeatedNamesAndOtherTypes) {
  GgufWriter writer;
  const auto none = [] { return Tensor(); };
  writer.AddTensor("a", DType::kF32, {1}, none);
  EXPECT_THROW(writer.AddTensor("a", DType::kF32, {1}, none), Error);
  EXPECT_THROW(writer.AddTensor("b", DType::kI32, {1}, none), Error);
  EXPECT_THROW(Written(writer), Error);
}

}  // namespace
}  // namespace headwise::gguf_test
