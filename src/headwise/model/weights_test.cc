// Weights by name, whatever stores them.
#include "headwise/model/weights.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/model_hash.h"

namespace headwise::weights_test {
namespace {

class HeldWeights : public WeightSource {
 public:
  std::string Describe() const override { return "held"; }
  ConstTensorView Find(const std::string& name) const override {
    const auto found = tensors.find(name);
    return found == tensors.end() ? ConstTensorView() : found->second.view();
  }
  std::vector<std::string> Names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors) names.push_back(name);
    return names;
  }
  std::map<std::string, Tensor> tensors;
};

TEST(WeightSource, GivesBlocksAndRefusesIntegers) {
  HeldWeights weights;
  weights.tensors["q"] = Tensor(DType::kQ8_0, {2, 32});
  weights.tensors["n"] = Tensor(DType::kI32, {2, 32});
  const Parameter q = weights.Get("q", {2, 32}, Start::Normal());
  EXPECT_EQ(ToString(q.value), "q8_0 [2, 32]");
  EXPECT_THROW(weights.Get("q", {2, 34}, Start::Normal()), Error);
  EXPECT_THROW(weights.Get("n", {2, 32}, Start::Normal()), Error);
}

TEST(WeightSource, BlocksCountInTheHashByTheirTypeAndEveryByte) {
  HeldWeights weights;
  weights.tensors["w"] = Tensor(DType::kQ8_0, {2, 32});
  const std::string hash = ModelHash(weights);
  weights.tensors["w"].Raw<uint8_t>()[67] = 1;  // the last one
  const std::string other = ModelHash(weights);
  EXPECT_NE(other, hash);
  weights.tensors["w"].Raw<uint8_t>()[67] = 0;
  EXPECT_EQ(ModelHash(weights), hash);
  weights.tensors["w"] = Tensor(DType::kF32, {2, 32});
  EXPECT_NE(ModelHash(weights), hash);
}

}  // namespace
}  // namespace headwise::weights_test
