#include "headwise/model/model_hash.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "headwise/base/scratch_folder.h"
#include "headwise/format/safetensors.h"

namespace headwise::model_hash_test {
namespace {

class ModelHashTest : public ScratchFolderTest {
 protected:
  std::string HashOf(std::vector<NamedTensor> tensors) {
    const auto path = folder_ / "hash.safetensors";
    WriteSafetensors(path, std::move(tensors));
    return ModelHash(path);
  }
};

TEST_F(ModelHashTest, NamesShapesTypesAndBytesCount) {
  Tensor a(DType::kF32, {2, 3}), b(DType::kF32, {3, 2}), c(DType::kI32, {2, 3});
  const std::string hash = HashOf({{"a", a.view()}, {"b", b.view()}});
  EXPECT_EQ(hash.size(), 32);
  EXPECT_EQ(hash, HashOf({{"b", b.view()}, {"a", a.view()}})) << "any order";
  EXPECT_NE(hash, HashOf({{"a", a.view()}, {"c", b.view()}})) << "a name";
  EXPECT_NE(hash, HashOf({{"a", b.view()}, {"b", b.view()}})) << "a shape";
  EXPECT_NE(hash, HashOf({{"a", c.view()}, {"b", b.view()}})) << "a type";
  EXPECT_NE(hash, HashOf({{"a", a.view()}})) << "a tensor";
  a.As<float>()[5] = 1;
  EXPECT_NE(hash, HashOf({{"a", a.view()}, {"b", b.view()}})) << "a byte";
}

}  // namespace
}  // namespace headwise::model_hash_test
