// Heads as slices of stored tensors, in three orders of the columns, against
// the same matrices apart.
#include "headwise/nn/head_slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/nn/head_weights.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise::head_slices_test {
namespace {

constexpr int64_t kHeads = 4, kGroups = 2, kDim = 3, kWidth = 5;
constexpr int64_t kQueries = kHeads * kDim, kKeys = kGroups * kDim;

Tensor Random(std::initializer_list<int64_t> shape, uint64_t seed) {
  Tensor tensor(DType::kF32, shape);
  Rng rng(seed);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    tensor.As<float>()[i] = static_cast<float>(rng.Normal());
  }
  return tensor;
}

// Rows of queries, keys and values [24, 5] and biases [24], side by side; and
// the same group by group: its queries, its key, its value.
class HeadSlices : public testing::Test {
 protected:
  HeadSlices() : by_group_(kAll * kWidth), biases_(kAll) {
    const int64_t in_group = kHeads / kGroups;
    for (int64_t g = 0; g < kGroups; ++g) {
      for (int64_t i = 0; i < in_group * kDim; ++i) {
        order_.push_back(g * in_group * kDim + i);
      }
      for (const int64_t first : {kQueries, kQueries + kKeys}) {
        for (int64_t i = 0; i < kDim; ++i)
          order_.push_back(first + g * kDim + i);
      }
    }
    for (int64_t row = 0; row < kAll; ++row) {
      std::copy_n(rows_.As<float>() + order_[row] * kWidth, kWidth,
                  by_group_.data() + row * kWidth);
      biases_[row] = bias_.As<float>()[order_[row]];
    }
  }

  AttentionLayer LayerWith(Linear of_x) {
    AttentionWeights weights;
    weights.of_x = std::move(of_x);
    weights.output =
        Linear({{{"o.weight", output_.view()}, {}}}, WeightLayout::kOutIn);
    return {{.heads = kHeads, .kv_heads = kGroups, .head_dim = kDim},
            std::move(weights),
            {AttentionKind::kSelf, 0, "layer.0"}};
  }
  AttentionLayer Apart() {
    const auto part = [&](const std::string& name, int64_t begin, int64_t end) {
      return Linear::Part{
          {name + ".weight", Rows(std::as_const(rows_).view(), begin, end)},
          {name + ".bias", Slice(std::as_const(bias_).view(), 0, begin, end)}};
    };
    return LayerWith(
        Linear({part("q", 0, kQueries), part("k", kQueries, kQueries + kKeys),
                part("v", kQueries + kKeys, kAll)},
               WeightLayout::kOutIn));
  }
  AttentionLayer ByGroup() {
    const Parameter weight = {
        "qkv.weight", View(std::as_const(by_group_).data(), {kAll, kWidth})};
    const Parameter bias = {"qkv.bias", ViewOf(std::as_const(biases_))};
    return LayerWith(ByGroups(weight, bias, kHeads, kGroups, kDim));
  }

  static constexpr int64_t kAll = kQueries + 2 * kKeys;
  Context context_{{2, ""}};
  Tensor rows_ = Random({kAll, kWidth}, 1), bias_ = Random({kAll}, 2);
  Tensor output_ = Random({kWidth, kQueries}, 3);
  std::vector<int64_t> order_;  // of rows, group by group
  std::vector<float> by_group_, biases_;
};

TEST_F(HeadSlices, GiveTheSameLayerInAnyOrder) {
  const AttentionLayer apart = Apart(), by_group = ByGroup();
  const Tensor x = Random({6, kWidth}, 4);
  const int64_t lengths[] = {4, 2};
  const SequenceBatch batch = MakeBatch(lengths);
  AttentionInput input;
  input.x = x.view();
  input.batch = &batch;
  Tensor y(DType::kF32, {6, kWidth}), z(DType::kF32, {6, kWidth});
  apart.Forward(context_, input, y.view(), Store::kOverwrite);
  by_group.Forward(context_, input, z.view(), Store::kOverwrite);
  for (int64_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y.As<float>()[i], z.As<float>()[i]);
  }
  for (int64_t head = 0; head < kHeads; ++head) {
    const HeadWeights a = WeightsOfHead(context_, apart, head);
    const HeadWeights b = WeightsOfHead(context_, by_group, head);
    const std::pair<const Tensor*, const Tensor*> pairs[] = {
        {&a.q, &b.q}, {&a.k, &b.k}, {&a.v, &b.v}, {&a.o, &b.o}};
    for (const auto& [one, other] : pairs) {
      ASSERT_EQ(one->size(), other->size());
      EXPECT_TRUE(std::equal(one->As<float>(), one->As<float>() + one->size(),
                             other->As<float>()));
    }
  }
}

struct Trained {
  Tensor y, dx;
};

Trained Train(Context& context, const Linear& layer, const Tensor& x,
              const Tensor& dy) {
  Trained out = {Tensor(DType::kF32, {x.shape(0), layer.out()}),
                 Tensor(DType::kF32, {x.shape(0), layer.in()})};
  layer.Forward(context, x.view(), out.y.view());
  layer.Backward(context, x.view(), dy.view(), out.dx.view());
  return out;
}

void ExpectNear(const Tensor& a, const Tensor& b, int64_t row_of_a,
                int64_t row_of_b, int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    EXPECT_NEAR(a.As<float>()[row_of_a * width + i],
                b.As<float>()[row_of_b * width + i], 1e-4);
  }
}

TEST_F(HeadSlices, AreTrainedInAnyOrder) {
  for (const int64_t rows : {3, 70, 300}) {
    SCOPED_TRACE(rows);
    const Tensor x = Random({rows, kWidth}, 5), dy = Random({rows, kAll}, 6);
    Tensor dw(DType::kF32, {kAll, kWidth}), db(DType::kF32, {kAll});
    Tensor dw2(DType::kF32, {kAll, kWidth}), db2(DType::kF32, {kAll});
    for (Tensor* all : {&dw, &db, &dw2, &db2}) {
      Fill(context_, 1, all->view());  // gradients are added to
    }
    const Trained apart = Train(context_,
                                Linear({{{.name = "w.weight",
                                          .value = std::as_const(rows_).view(),
                                          .gradient = dw.view()},
                                         {.name = "w.bias",
                                          .value = std::as_const(bias_).view(),
                                          .gradient = db.view()}}},
                                       WeightLayout::kOutIn),
                                x, dy);
    const Trained by_group = Train(
        context_,
        ByGroups(
            {.name = "qkv.weight",
             .value = View(std::as_const(by_group_).data(), {kAll, kWidth}),
             .gradient = dw2.view()},
            {.name = "qkv.bias",
             .value = ViewOf(std::as_const(biases_)),
             .gradient = db2.view()},
            kHeads, kGroups, kDim),
        x, dy);
    ExpectNear(apart.y, by_group.y, 0, 0, rows * kAll);
    ExpectNear(apart.dx, by_group.dx, 0, 0, rows * kWidth);
    for (int64_t row = 0; row < kAll; ++row) {
      ExpectNear(dw, dw2, order_[row], row, kWidth);
      ExpectNear(db, db2, order_[row], row, 1);
    }
  }
}

TEST_F(HeadSlices, SayWhereAHeadIsStored) {
  const AttentionLayer by_group = ByGroup();
  std::vector<int64_t> seen;
  for (int64_t head = 0; head < kHeads; ++head) {
    for (const StoredSlice& slice : SlicesOfHead(by_group, head)) {
      if (slice.of->name != "qkv.weight") continue;
      EXPECT_EQ(slice.axis, 0);
      for (int64_t i = 0; i < slice.count; ++i) {
        EXPECT_EQ(order_[slice.first + i], head * kDim + i);
        seen.push_back(slice.first + i);
      }
    }
  }
  for (int64_t group = 0; group < kGroups; ++group) {
    for (const StoredSlice& slice : SlicesOfGroup(by_group, group)) {
      if (slice.of->name != "qkv.bias") continue;
      for (int64_t i = 0; i < slice.count; ++i) seen.push_back(slice.first + i);
    }
  }
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(std::ssize(seen), kAll);
  for (int64_t i = 0; i < kAll; ++i) EXPECT_EQ(seen[i], i);
}

TEST_F(HeadSlices, JoinAProjectionAsItIsStored) {
  const AttentionLayer apart = Apart(), by_group = ByGroup();
  for (const HeadMatrix matrix :
       {HeadMatrix::kQuery, HeadMatrix::kKey, HeadMatrix::kValue}) {
    const StoredMatrix whole = StoredOf(apart, matrix);
    const StoredMatrix joined = StoredOf(by_group, matrix);
    EXPECT_TRUE(whole.copies.empty());
    EXPECT_EQ(joined.copies.size(), 2u);
    const auto same = [&](const Parameter& a, const Parameter& b) {
      return ToVector<float>(context_, a.value) ==
             ToVector<float>(context_, b.value);
    };
    EXPECT_TRUE(same(whole.weight, joined.weight));
    EXPECT_TRUE(same(whole.bias, joined.bias));
  }
  EXPECT_THROW(apart.inputs()[0]->Stored(kQueries - 1, kQueries + 1), Error);
}

TEST_F(HeadSlices, RefuseAShapeThatHoldsOtherHeads) {
  const Parameter weight = {"qkv.weight", std::as_const(rows_).view()};
  EXPECT_THROW(ByGroups(weight, {}, kHeads, kGroups, kDim + 1), Error);
}

}  // namespace
}  // namespace headwise::head_slices_test
