// Layers that attend to the keys and values of another, against the formula in
// f64 and by finite differences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/nn/attention_for_test.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/head_slices.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise::nn_test::shared_keys_test {
namespace {

// A layer that attends to the keys and values of another, twice over.
class SharedKeysTest : public testing::TestWithParam<uint64_t> {
 protected:
  SharedKeysTest() : source_case_(CaseOf(GetParam())), values_(GetParam()) {
    source_case_.shares = true;
    source_case_.hooked = source_case_.biased = false;
    Case reader = CaseOf(GetParam() + 100);
    reader.groups = source_case_.groups;
    reader.heads = 2 * reader.groups;
    reader.dim = source_case_.dim;
    reader.value = source_case_.value;
    reader.centred = reader.centred && reader.dim > 2;
    reader.keys_are_values = reader.hooked = reader.biased = false;
    reader.keys_of = 0;
    readers_ = {reader, reader};
    layers_.push_back(MakeLayer(values_, source_case_, "source"));
    layers_.push_back(MakeLayer(values_, reader, "first", 1));
    layers_.push_back(MakeLayer(values_, reader, "second", 2));
  }
  const Case& CaseOfLayer(size_t i) const {
    return i == 0 ? source_case_ : readers_[i - 1];
  }

  Context context_{{2, ""}};
  Case source_case_;
  std::vector<Case> readers_;
  TestValues values_;
  std::vector<AttentionLayer> layers_;
};

TEST_P(SharedKeysTest, GradientsOfAllReadersComeToTheSource) {
  const int64_t lengths[] = {6};
  const SequenceBatch batch = MakeBatch(lengths);
  const std::string inputs[] = {"x0", "x1", "x2"};
  for (const std::string& name : inputs) values_.Make(name, {6, kWidth});
  const Tensor r = RandomTensor({6, kWidth}, 9);
  Tensor y(DType::kF32, {6, kWidth});
  SharedKeys shared;
  AttentionSaved saved[3];
  const auto input = [&](size_t i) {
    AttentionInput of;
    of.x = std::as_const(values_.value(inputs[i])).view();
    of.batch = &batch;
    of.shared = &shared;
    of.saved = &saved[i];
    return of;
  };
  const auto loss = [&] {
    double sum = 0;
    for (size_t i = 0; i < 3; ++i) {
      layers_[i].Forward(context_, input(i), y.view(), Store::kOverwrite);
      sum += Dot(y, r);
    }
    return sum;
  };
  loss();
  Formula source;
  for (size_t i = 0; i < 3; ++i) {
    Formula one = Calculate(CaseOfLayer(i), layers_[i],
                            Wide(values_.value(inputs[i]), 0, 6 * kWidth), {},
                            i == 0 ? nullptr : &source);
    if (i == 0) source = std::move(one);
    if (i == 2) ExpectNear(ToVector<float>(context_, y.view()), one.y);
  }
  for (size_t i = 3; i-- > 0;) {
    layers_[i].Backward(context_, input(i), saved[i], r.view(),
                        values_.gradient(inputs[i]).view(), {});
  }
  values_.Check(loss, 3);
}

TEST_P(SharedKeysTest, ReadersHaveNoCacheOfTheirOwn) {
  const Tensor x = RandomTensor({7, kWidth}, 3);
  const Case& c = source_case_;
  Tensor k(DType::kF32, {1, 8, c.groups, c.dim});
  Tensor v(DType::kF32, {1, 8, c.groups, c.value});
  std::vector<int32_t> held = {0};
  const CacheView cache = {k.view(), v.view(), held};
  const Numbers whole = Wide(x, 0, 7 * kWidth);
  const Formula source = Calculate(c, layers_[0], whole, {});
  for (const int64_t rows : {4, 1, 2}) {
    SequenceBatch batch = MakeBatch(std::vector<int64_t>{rows});
    for (int32_t& position : batch.positions) position += held[0];
    SharedKeys shared;
    for (size_t i = 0; i < 3; ++i) {
      AttentionInput input;
      input.x = Rows(x.view(), held[0], held[0] + rows);
      input.batch = &batch;
      input.cache = &cache;
      input.shared = &shared;
      Tensor y(DType::kF32, {rows, kWidth});
      layers_[i].Forward(context_, input, y.view(), Store::kOverwrite);
      const Formula expected = Calculate(CaseOfLayer(i), layers_[i], whole, {},
                                         i == 0 ? nullptr : &source);
      ExpectNear(ToVector<float>(context_, y.view()),
                 ColumnsOf(expected.y, std::ssize(expected.y), held[0] * kWidth,
                           rows * kWidth));
    }
    held[0] += static_cast<int32_t>(rows);
  }
}

TEST_P(SharedKeysTest, AReaderAloneIsRefusedByName) {
  const int64_t lengths[] = {2};
  const SequenceBatch batch = MakeBatch(lengths);
  const Tensor x = RandomTensor({2, kWidth}, 3);
  Tensor y(DType::kF32, {2, kWidth});
  AttentionInput input;
  input.x = x.view();
  input.batch = &batch;
  try {
    layers_[1].Forward(context_, input, y.view(), Store::kOverwrite);
    ADD_FAILURE() << "ran";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("first"),
                                             testing::HasSubstr("layer 0")));
  }
  EXPECT_THROW(SlicesOf(layers_[1], HeadMatrix::kKey, 0, 1), Error);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SharedKeysTest, testing::Range<uint64_t>(0, 6));

}  // namespace
}  // namespace headwise::nn_test::shared_keys_test
