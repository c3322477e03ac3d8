// Sessions of a model whose layers differ, one of which has no cache of its
// own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/layer_kinds_for_test.h"
#include "headwise/model/summary.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/slice.h"

namespace headwise::layer_kinds_test {
namespace {

class LayerKindsSession : public testing::Test {
 protected:
  Context context_{{2, ""}};
  nn_test::TestValues values_;
  Model model_{model_tests::PartsOfLayerKinds(values_)};
};

TEST_F(LayerKindsSession, StepsGiveWhatTheWholeTextGives) {
  const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
  const std::vector<int64_t> lengths = {8};
  const Tensor x = Forward(context_, model_, {.ids = ids, .lengths = lengths});
  Tensor logits(DType::kF32, {8, 11});
  model_.Logits(context_, x.view(), logits.view());
  Session session(context_, model_, {.capacity = 8});
  int64_t at = 0;
  for (const int64_t rows : {3, 1, 1, 2, 1}) {
    const Tensor& found = session.Feed(std::span(ids).subspan(
        static_cast<size_t>(at), static_cast<size_t>(rows)));
    at += rows;
    EXPECT_THAT(
        ToVector<float>(context_, found.view()),
        testing::Pointwise(
            testing::FloatNear(2e-5f),
            ToVector<float>(context_, Rows(logits.view(), at - 1, at))));
  }
  EXPECT_EQ(static_cast<double>(session.cache_bytes().kept),
            CostOf(model_.config(), 8).cache_bytes);
}

TEST_F(LayerKindsSession, BeamsReorderTheSharedCache) {
  const std::vector<int32_t> start = {3, 1, 4, 7}, next = {5, 5};
  Session both(context_, model_, {.sequences = 2});
  both.Feed(start);
  const int32_t order[] = {1, 1};
  both.Reorder(order);
  const auto found = ToVector<float>(context_, both.Feed(next).view());
  Session one(context_, model_);
  one.Feed(std::span(start).last(2));
  const auto alone =
      ToVector<float>(context_, one.Feed(std::span(next).first(1)).view());
  EXPECT_THAT(std::vector(found.begin() + 11, found.end()),
              testing::Pointwise(testing::FloatNear(2e-5f), alone));
}

TEST_F(LayerKindsSession, ACacheByRoleIsRefusedByName) {
  const KvPolicy policy = {.sinks = 1, .window = 4};
  try {
    const Session session(context_, model_, {.policy = &policy});
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("layer.0.attention"),
                               testing::HasSubstr("keys")));
  }
}

}  // namespace
}  // namespace headwise::layer_kinds_test
