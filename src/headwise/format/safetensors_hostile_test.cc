// Files that lie: each must end in an Error that names file and place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "headwise/base/atomic_file.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"

namespace headwise::safetensors_hostile_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string Length(uint64_t length) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes;
}

std::string File(const std::string& header, size_t data_bytes = 0) {
  return Length(header.size()) + header + std::string(data_bytes, 'x');
}

std::string Repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

// One F32 tensor "a" with the given shape and offsets.
std::string One(const std::string& shape, const std::string& offsets,
                size_t data_bytes, const std::string& type = "\"F32\"") {
  return File(R"({"a":{"dtype":)" + type + R"(,"shape":)" + shape +
                  R"(,"data_offsets":)" + offsets + "}}",
              data_bytes);
}

std::string Two(const std::string& first, const std::string& second,
                size_t data_bytes) {
  return File(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
                  R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" +
                  second + "}}",
              data_bytes);
}

struct Case {
  const char* name;
  std::string bytes;
  const char* says;
  ErrorCode code = ErrorCode::kCorrupt;
};

std::vector<Case> Cases() {
  const std::string deep =
      "{\"a\":" + std::string(200, '[') + std::string(200, ']') + "}";
  return {
      {"empty file", "", "byte 0] expected an 8-byte header length"},
      {"seven bytes", "1234567", "a file of 7 bytes"},
      {"header longer than the file", Length(1000) + "{}", "at most 2 bytes"},
      {"header of 2^64-1", Length(~uint64_t{0}) + "{}", "18446744073709551615"},
      {"no header", Length(0), "an empty header"},
      {"header is not an object", File("[]"), "begins with {"},
      {"leading space", File(" {}"), "begins with {"},
      {"truncated header", File(R"({"a":{"dtype")"), "header at byte 8: byte"},
      {"invalid UTF-8", File("{\"\xff\":{}}"), "UTF-8"},
      {"too deep", File(deep), "nesting deeper than 128"},
      {"header of many values",
       File("{\"a\":[0" + Repeated(",0", 2'000'000) + "]}"),
       "at most 2000000 values; found more"},
      {"truncated data", One("[4]", "[0,16]", 15), "end of tensor \"a\""},
      {"bytes after the last tensor", One("[4]", "[0,16]", 17),
       "1 bytes that belong to no tensor"},
      {"gap before the first", One("[4]", "[4,20]", 20), "leaves a gap"},
      {"gap between", Two("[0,4]", "[5,9]", 9), "leaves a gap"},
      {"overlap", Two("[0,4]", "[2,6]", 6), "overlaps another tensor"},
      {"same bytes twice", Two("[0,4]", "[0,4]", 4), "overlaps"},
      {"end before begin", One("[4]", "[16,0]", 16), "16 bytes for f32 [4]"},
      {"offsets too short", One("[4]", "[0,12]", 12), "16 bytes for f32 [4]"},
      {"offsets too large for 63 bits",
       One("[4]", "[0,18446744073709551615]", 16), "data_offsets"},
      {"negative offset", One("[4]", "[-16,0]", 16), "data_offsets"},
      {"fractional offset", One("[4]", "[0.5,16]", 16), "data_offsets"},
      {"three offsets", One("[4]", "[0,16,32]", 16), "two offsets"},
      {"offsets not an array", One("[4]", "16", 16), "two offsets"},
      {"overflowing sizes", One("[4294967296,4294967296]", "[0,0]", 0),
       "fits 64 bits"},
      {"overflow hidden by a zero",
       One("[4611686018427387904,4,0]", "[0,0]", 0), "fits 64 bits"},
      {"negative size", One("[-4]", "[0,16]", 16), "shape"},
      {"shape of strings", One("[\"4\"]", "[0,16]", 16), "shape"},
      {"shape not an array", One("4", "[0,16]", 16), "array of sizes"},
      {"rank 7", One("[1,1,1,1,1,1,1]", "[0,4]", 4), "at most 6",
       ErrorCode::kUnsupported},
      {"unknown type", One("[4]", "[0,16]", 16, "\"F31\""), "element type"},
      {"type not a string", One("[4]", "[0,16]", 16, "5"), "a string"},
      {"unsupported type", One("[4]", "[0,8]", 8, "\"U16\""), "U16",
       ErrorCode::kUnsupported},
      {"no dtype", File(R"({"a":{"shape":[],"data_offsets":[0,4]}})", 4),
       "\"dtype\""},
      {"tensor is a number", File(R"({"a":1})"), "\"dtype\""},
      {"name twice",
       File(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
            R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
       "the key \"a\" twice"},
      {"metadata not strings", File(R"({"__metadata__":{"a":1}})"),
       "__metadata__"},
      {"metadata not an object", File(R"({"__metadata__":"x"})"),
       "__metadata__"},
  };
}

TEST(SafetensorsHostile, EveryLieIsAnErrorThatNamesFileAndPlace) {
  const fs::path path = fs::temp_directory_path() /
                        ("headwise.hostile." + std::to_string(getpid()));
  for (const Case& test : Cases()) {
    WriteFileAtomically(path, test.bytes);
    try {
      Safetensors::Open(path);
      ADD_FAILURE() << test.name << ": opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), test.code) << test.name;
      EXPECT_THAT(error.what(), HasSubstr(path.string())) << test.name;
      EXPECT_THAT(error.what(), HasSubstr(test.says)) << test.name;
    }
  }
  fs::remove(path);
}

TEST(SafetensorsHostile, EveryTruncationOfAGoodFileIsRefused) {
  const fs::path path =
      fs::temp_directory_path() / ("headwise.cut." + std::to_string(getpid()));
  const std::string good = One("[4]", "[0,16]", 16);
  WriteFileAtomically(path, good);
  ASSERT_NO_THROW(Safetensors::Open(path));
  for (size_t size = 0; size < good.size(); ++size) {
    WriteFileAtomically(path, good.substr(0, size));
    EXPECT_THROW(Safetensors::Open(path), Error) << size;
  }
  fs::remove(path);
}

}  // namespace
}  // namespace headwise::safetensors_hostile_test
