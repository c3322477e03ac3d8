#include "headwise/format/token_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "headwise/error.h"

namespace headwise::token_ids_test {
namespace {

using testing::HasSubstr;

template <typename T>
ConstTensorView Of(const std::vector<T>& values, DType type) {
  return {values.data(), type, {static_cast<int64_t>(values.size())}};
}

std::string Refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(TokenIds, AreReadFromEveryWholeType) {
  const std::vector<int64_t> wide = {7, 2'000'000'000};
  EXPECT_EQ(TokenIdAt(Of(wide, DType::kI64), 1, "f"), 2'000'000'000);
  const std::vector<int32_t> usual = {7, 9};
  EXPECT_EQ(TokenIdAt(Of(usual, DType::kI32), 1, "f"), 9);
  const std::vector<int16_t> narrow = {7, 300};
  EXPECT_EQ(TokenIdAt(Of(narrow, DType::kI16), 1, "f"), 300);
  const std::vector<uint8_t> bytes = {7, 200};
  EXPECT_EQ(TokenIdAt(Of(bytes, DType::kU8), 1, "f"), 200);
  EXPECT_EQ(IntegerAt(Of(bytes, DType::kI8), 1, "f"), -56);
}

// 2^32 + 5 was read as 5.
TEST(TokenIds, DoNotWrap) {
  const std::vector<int64_t> ids = {3, (int64_t{1} << 32) + 5, -1};
  const ConstTensorView view = Of(ids, DType::kI64);
  EXPECT_THAT(Refusal([&] { TokenIdAt(view, 1, "a.safetensors"); }),
              HasSubstr("[a.safetensors] expected token ids from 0 to "
                        "2147483647; found 4294967301 at place 1"));
  EXPECT_THAT(Refusal([&] { TokenIdAt(view, 2, "f"); }), HasSubstr("found -1"));
}

TEST(TokenIds, AreNoFractions) {
  const std::vector<float> values = {1, 2};
  EXPECT_THAT(Refusal([&] { IntegerAt(Of(values, DType::kF32), 0, "f"); }),
              HasSubstr("a tensor of whole numbers"));
}

TEST(TokenIds, LieWithinTheVocabulary) {
  const std::vector<int32_t> ids = {0, 4, 5};
  RequireTokenIds(ids, 6, "f");
  EXPECT_THAT(Refusal([&] { RequireTokenIds(ids, 5, "f"); }),
              HasSubstr("from 0 to 4; found 5 at place 2"));
}

}  // namespace
}  // namespace headwise::token_ids_test
