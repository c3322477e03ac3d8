#include "headwise/format/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <numeric>

#include "headwise/base/atomic_file.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/tensor/unaligned.h"

namespace headwise::safetensors_test {
namespace {

namespace fs = std::filesystem;

class SafetensorsTest : public ScratchFolderTest {
 protected:
  std::string Bytes(const char* name) const {
    return std::string(MappedFile(folder_ / name).text());
  }
};

std::string WithLength(const std::string& header) {
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i) {
    length[i] = static_cast<char>(header.size() >> (8 * i));
  }
  return length + header;
}

TEST_F(SafetensorsTest, EveryTypeAndShapeComesBack) {
  const std::vector<double> doubles = {1.5, -2.0};
  const std::vector<float> floats = {1, 2, 3, 4, 5, 6};
  const std::vector<uint16_t> halves = {0x3c00, 0xbc00, 0x7e00};
  const std::vector<int64_t> longs = {-1};
  const std::vector<int8_t> bytes = {1, 0, -5};
  std::vector<NamedTensor> tensors = {
      {"f", View(floats.data(), {2, 3})},
      {"d", {doubles.data(), DType::kF64, {2}}},
      {"h", {halves.data(), DType::kF16, {3, 1}}},
      {"b", {halves.data(), DType::kBF16, {1, 3}}},
      {"i16", {halves.data(), DType::kI16, {3}}},
      {"l", {longs.data(), DType::kI64, {}}},
      {"i", {floats.data(), DType::kI32, {6}}},
      {"c", {bytes.data(), DType::kI8, {3}}},
      {"u", {bytes.data(), DType::kU8, {3}}},
      {"t", {bytes.data(), DType::kBool, {3}}},
      {"empty", {nullptr, DType::kF32, {0, 7}}},
  };
  WriteSafetensors(folder_ / "a", tensors, {{"format", "pt"}, {"ü", "\"x\""}});
  const Safetensors file = Safetensors::Open(folder_ / "a");
  ASSERT_EQ(file.tensors().size(), tensors.size());
  EXPECT_EQ(file.metadata().at("ü"), "\"x\"");
  for (const NamedTensor& tensor : tensors) {
    const ConstTensorView found = file.At(tensor.name);
    EXPECT_EQ(ToString(found), ToString(tensor.view)) << tensor.name;
    EXPECT_EQ(found.stride, tensor.view.stride) << tensor.name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(found.data) % ElementSize(found.type),
              0u);
    const auto size = static_cast<size_t>(BytesOf(found.type, found.size()));
    if (size == 0) continue;
    EXPECT_EQ(std::memcmp(found.data, tensor.view.data, size), 0)
        << tensor.name;
  }
}

TEST_F(SafetensorsTest, BytesDoNotDependOnTheOrderGiven) {
  const float values[4] = {1, 2, 3, 4};
  const NamedTensor a{"a", View(values, {4})};
  const NamedTensor b{"b", View(values, {2, 2})};
  const NamedTensor c{"c", {values, DType::kU8, {3}}};
  WriteSafetensors(folder_ / "1", {a, b, c}, {{"k", "v"}});
  WriteSafetensors(folder_ / "2", {c, b, a}, {{"k", "v"}});
  EXPECT_EQ(Bytes("1"), Bytes("2"));
  EXPECT_EQ(
      Bytes("1").substr(8, 66),
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[4],"data_off)");
}

TEST_F(SafetensorsTest, MissingTensorsAreNamed) {
  WriteSafetensors(folder_ / "a", {});
  const Safetensors file = Safetensors::Open(folder_ / "a");
  EXPECT_FALSE(file.Find("x"));
  try {
    file.At("x");
    FAIL() << "found a tensor that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), testing::HasSubstr("\"x\""));
  }
}

TEST_F(SafetensorsTest, RefusesToWriteWhatCannotBeReadBack) {
  const float values[6] = {};
  const NamedTensor a{"a", View(values, {6})};
  EXPECT_THROW(WriteSafetensors(folder_ / "x", {a, a}), Error);
  EXPECT_THROW(WriteSafetensors(folder_ / "x", {{"__metadata__", a.view}}),
               Error);
  EXPECT_THROW(WriteSafetensors(folder_ / "x", {{"\xff", a.view}}), Error);
  ConstTensorView transposed = View(values, {2, 3});
  std::swap(transposed.stride[0], transposed.stride[1]);
  EXPECT_THROW(WriteSafetensors(folder_ / "x", {{"t", transposed}}), Error);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(SafetensorsTest, UnalignedTensorsAreCopiedWhenAskedFor) {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string bytes = WithLength(header + (header.size() % 4 == 0 ? " " : ""));
  const float value = 2.5f;
  bytes.append(reinterpret_cast<const char*>(&value), 4);
  WriteFileAtomically(folder_ / "a", bytes);
  const Safetensors file = Safetensors::Open(folder_ / "a");
  EXPECT_FALSE(IsAligned(file.Stored("a")));
  EXPECT_EQ(LoadUnaligned<float>(file.Stored("a").data, 0), 2.5f);
  EXPECT_TRUE(IsAligned(file.At("a")));
  EXPECT_EQ(file.At("a").As<float>()[0], 2.5f);
  EXPECT_EQ(file.At("a").data, file.At("a").data);
}

TEST_F(SafetensorsTest, BlocksAreRefusedByTheirType) {
  const Tensor blocks(DType::kQ8_0, {2, 32});
  try {
    WriteSafetensors(folder_ / "b", {{"w", blocks.view()}});
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("q8_0 [2, 32]"), std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(fs::exists(folder_ / "b"));
}

TEST_F(SafetensorsTest, FoldersAndShardedIndexesOpenAsOne) {
  const float values[4] = {1, 2, 3, 4};
  WriteSafetensors(folder_ / "m-1.safetensors", {{"a", View(values, {4})}});
  WriteSafetensors(folder_ / "m-2.safetensors",
                   {{"b", View(values + 1, {2})}, {"c", View(values, {1})}});
  WriteFileAtomically(folder_ / "model.safetensors.index.json",
                      R"({"metadata":{"total_size":24},"weight_map":)"
                      R"({"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  const Safetensors opened = Safetensors::Open(folder_);
  EXPECT_EQ(opened.tensors().size(), 2u);
  EXPECT_EQ(opened.At("b").As<float>()[0], 2.0f);

  WriteSafetensors(folder_ / "model.safetensors", {{"z", View(values, {4})}});
  EXPECT_TRUE(Safetensors::Open(folder_).Find("z"));
}

TEST_F(SafetensorsTest, AnIndexCannotLeaveItsFolderOrNameWhatIsNotThere) {
  const float values[1] = {};
  WriteSafetensors(folder_ / "s", {{"a", View(values, {1})}});
  for (const char* map :
       {R"({"a":"../s"})", R"({"a":"/etc/passwd"})", R"({"a":".."})",
        R"({"a":""})", R"({"a":7})", R"({"b":"s"})", R"({"a":"missing"})",
        R"({"a":"s","a":"s"})", R"([])", R"(3)"}) {
    WriteFileAtomically(folder_ / "i.json",
                        std::string(R"({"weight_map":)") + map + "}");
    EXPECT_THROW(Safetensors::Open(folder_ / "i.json"), Error) << map;
  }
}

TEST_F(SafetensorsTest, OpensA100MegabyteCheckpointWithoutReadingIt) {
  constexpr int kTensors = 500;
  const std::vector<float> values(50'000, 1.0f);
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < kTensors; ++i) {
    tensors.push_back({"layer." + std::to_string(i) + ".weight",
                       View(values.data(), {50'000})});
  }
  WriteSafetensors(folder_ / "large", tensors);
  ASSERT_GT(fs::file_size(folder_ / "large"), 100'000'000u);
  const auto start = std::chrono::steady_clock::now();
  const Safetensors file = Safetensors::Open(folder_ / "large");
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - start;
  EXPECT_EQ(file.tensors().size(), static_cast<size_t>(kTensors));
  EXPECT_LT(took.count(), 50.0);
  RecordProperty("milliseconds", std::to_string(took.count()));
}

}  // namespace
}  // namespace headwise::safetensors_test
