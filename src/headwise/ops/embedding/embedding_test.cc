#include "headwise/ops/embedding/embedding.h"

#include <gtest/gtest.h>

#include <vector>

#include "headwise/error.h"
#include "headwise/tensor/half.h"

namespace headwise {
namespace {

TEST(Embedding, GathersRowsOfEveryType) {
  const std::vector<float> table = {1, 2, 3, 4, 5, 6};
  std::vector<uint16_t> bf16(6), f16(6);
  for (int i = 0; i < 6; ++i) {
    bf16[i] = ToBf16(table[i]);
    f16[i] = ToF16(table[i]);
  }
  const std::vector<int32_t> ids = {2, 0, 2};
  Context context({2, ""});
  for (const ConstTensorView& view :
       {ConstTensorView(table.data(), DType::kF32, {3, 2}),
        ConstTensorView(bf16.data(), DType::kBF16, {3, 2}),
        ConstTensorView(f16.data(), DType::kF16, {3, 2})}) {
    std::vector<float> out(6, 100);
    EmbeddingForward(context, view, ids, View(out.data(), {3, 2}));
    EXPECT_EQ(out, (std::vector<float>{5, 6, 1, 2, 5, 6}));
    EmbeddingForward(context, view, ids, View(out.data(), {3, 2}),
                     EmbeddingWrite::kAdd);
    EXPECT_EQ(out, (std::vector<float>{10, 12, 2, 4, 10, 12}));
  }
}

TEST(Embedding, BackwardAddsToTheRowsThatWereRead) {
  const std::vector<float> dout = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> ids = {2, 0, 2};
  std::vector<float> dtable(6, 10);
  Context context({2, ""});
  EmbeddingBackward(context, View(dout.data(), {3, 2}), ids,
                    View(dtable.data(), {3, 2}));
  EXPECT_EQ(dtable, (std::vector<float>{13, 14, 10, 10, 16, 18}));
}

TEST(Embedding, AnIdOutsideTheTableIsNamed) {
  const std::vector<float> table(6);
  std::vector<float> out(4);
  const std::vector<int32_t> ids = {1, 3};
  Context context({1, ""});
  try {
    EmbeddingForward(context, View(table.data(), {3, 2}), ids,
                     View(out.data(), {2, 2}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().found, "3 at position 1");
  }
}

}  // namespace
}  // namespace headwise
