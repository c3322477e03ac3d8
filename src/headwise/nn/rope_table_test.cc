// Frequencies by the length of a call, and layers that turn by them, against
// layers of plain positions that turn the same.
#include "headwise/nn/rope_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise::rope_table_test {
namespace {

using testing::FloatNear;
using testing::Pointwise;

RopeConfig Dynamic() {
  return {.head_dim = 8,
          .base = 100,
          .scaling = RopeScaling::kDynamic,
          .factor = 3,
          .original_context = 9};
}

RopeConfig Longrope() {
  return {.head_dim = 8,
          .base = 100,
          .scaling = RopeScaling::kLongrope,
          .original_context = 9,
          .short_factors = {1, 1.1, 1.3, 1.7},
          .long_factors = {1.2, 2, 5, 11}};
}

// Plain positions of a base that has grown, by the formula of NTK scaling.
RopeConfig Grown(const RopeConfig& dynamic, int64_t length) {
  RopeConfig plain = dynamic;
  plain.scaling = RopeScaling::kNone;
  const double stretch = dynamic.factor * static_cast<double>(length) /
                             static_cast<double>(dynamic.original_context) -
                         (dynamic.factor - 1);
  const double dims = static_cast<double>(dynamic.dims());
  plain.base = dynamic.base * std::pow(stretch, dims / (dims - 2));
  return plain;
}

std::vector<float> FrequenciesOf(Context& context, const RopeTable& table,
                                 const SequenceBatch& batch) {
  return ToVector<float>(context, table.frequencies(context, batch));
}

TEST(RopeTable, HasTheFrequenciesOfTheLongestPositionOfACall) {
  Context context({1, ""});
  const RopeTable dynamic(Dynamic()), longrope(Longrope());
  const auto expect = [&](const SequenceBatch& batch, int64_t length) {
    EXPECT_EQ(FrequenciesOf(context, dynamic, batch),
              RopeFrequencies(Dynamic(), length));
    EXPECT_EQ(FrequenciesOf(context, longrope, batch),
              RopeFrequencies(Longrope(), length));
  };
  expect(MakeBatch(std::vector<int64_t>{5, 9}), 9);
  expect(MakeBatch(std::vector<int64_t>{5, 12, 1}), 12);
  SequenceBatch step = MakeBatch(std::vector<int64_t>{1, 1});
  for (int32_t& position : step.positions) position += 20;
  expect(step, 21);
  expect(MakeBatch(std::vector<int64_t>{3}), 3);
  SequenceBatch chunk = MakeBatch(std::vector<int64_t>{4});
  chunk.call_length = 30;
  expect(chunk, 30);
  EXPECT_NE(RopeFrequencies(Dynamic(), 12), RopeFrequencies(Dynamic(), 9));
  EXPECT_NE(RopeFrequencies(Longrope(), 12), RopeFrequencies(Longrope(), 9));
}

TEST(RopeTable, IsSharedByThreads) {
  const RopeTable table(Dynamic());
  std::vector<int> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        Context context({1, ""});
        for (int64_t i = 0; i < 40; ++i) {
          const int64_t length = 5 + (i * static_cast<int64_t>(t + 1)) % 23;
          const SequenceBatch batch = MakeBatch(std::vector<int64_t>{length});
          wrong[t] += FrequenciesOf(context, table, batch) !=
                      RopeFrequencies(Dynamic(), length);
        }
      });
    }
  }
  EXPECT_THAT(wrong, testing::Each(0));
}

constexpr int64_t kWidth = 12, kHeads = 4, kGroups = 2, kDim = 8;

// A layer of the same weights whatever turns it.
class Turning {
 public:
  explicit Turning(const RopeConfig& rope) {
    AttentionWeights weights;
    const int64_t keys = kGroups * kDim;
    weights.of_x = Linear({{Trainable({kHeads * kDim, kWidth}), {}},
                           {Trainable({keys, kWidth}), {}},
                           {Trainable({keys, kWidth}), {}}},
                          WeightLayout::kOutIn);
    weights.output = Linear({{Trainable({kWidth, kHeads * kDim}), {}}},
                            WeightLayout::kOutIn);
    weights.rope = std::make_shared<RopeTable>(rope);
    AttentionLayerConfig config;
    config.heads = kHeads;
    config.kv_heads = kGroups;
    config.head_dim = kDim;
    config.mask = AttentionMask::Causal();
    layer_ = AttentionLayer(config, std::move(weights), {});
  }

  // What comes out of sequences, and all gradients.
  std::vector<float> Run(const std::vector<int64_t>& lengths) {
    const SequenceBatch batch = MakeBatch(lengths);
    const Tensor x = Random({batch.total(), kWidth}, 5);
    const Tensor dy = Random({batch.total(), kWidth}, 6);
    Tensor y(DType::kF32, {batch.total(), kWidth});
    Tensor dx(DType::kF32, {batch.total(), kWidth});
    AttentionSaved saved;
    AttentionInput input;
    input.x = x.view();
    input.batch = &batch;
    input.saved = &saved;
    layer_.Forward(context_, input, y.view(), Store::kOverwrite);
    layer_.Backward(context_, input, saved, dy.view(), dx.view(), {});
    std::vector<float> all = ToVector<float>(context_, y.view());
    Append(dx, all);
    for (const auto& [value, gradient] : values_) Append(gradient, all);
    return all;
  }

  // The same text in pieces by a cache [1, 32, G, D]; the layer of a piece is
  // that of `layers`.
  static std::vector<float> RunPieces(
      const std::vector<int64_t>& pieces,
      const std::vector<const Turning*>& layers) {
    Context context({1, ""});
    Tensor k(DType::kF32, {1, 32, kGroups, kDim});
    Tensor v(DType::kF32, {1, 32, kGroups, kDim});
    std::vector<int32_t> held = {0};
    const Tensor x = Random({32, kWidth}, 5);
    std::vector<float> all;
    for (size_t i = 0; i < pieces.size(); ++i) {
      SequenceBatch batch = MakeBatch({&pieces[i], 1});
      for (int32_t& position : batch.positions) position += held[0];
      const CacheView cache = {k.view(), v.view(), held};
      AttentionInput input;
      input.x = Rows(x.view(), held[0], held[0] + pieces[i]);
      input.batch = &batch;
      input.cache = &cache;
      Tensor y(DType::kF32, {pieces[i], kWidth});
      layers[i]->layer_.Forward(context, input, y.view(), Store::kOverwrite);
      Append(y, all);
      held[0] += static_cast<int32_t>(pieces[i]);
    }
    Append(k, all);
    return all;
  }

 private:
  static Tensor Random(const Shape& shape, uint64_t seed) {
    Rng rng(seed);
    Tensor tensor(DType::kF32, shape);
    for (int64_t i = 0; i < tensor.size(); ++i) {
      tensor.As<float>()[i] = static_cast<float>(rng.Normal());
    }
    return tensor;
  }
  static void Append(const Tensor& tensor, std::vector<float>& all) {
    all.insert(all.end(), tensor.As<float>(),
               tensor.As<float>() + tensor.size());
  }
  Parameter Trainable(const Shape& shape) {
    auto& [value, gradient] = values_.emplace_back();
    value = Random(shape, values_.size());
    gradient = Tensor(DType::kF32, shape);
    return {"w", std::as_const(value).view(), gradient.view()};
  }

  Context context_{{1, ""}};
  std::list<std::pair<Tensor, Tensor>> values_;
  AttentionLayer layer_;
};

TEST(TurningLayer, OfDynamicPositionsHasTheBaseOfTheWholeCall) {
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{4, 9}, {4, 13}, {30}}) {
    const int64_t longest = std::max<int64_t>(lengths.back(), 9);
    const auto expected = Turning(Grown(Dynamic(), longest)).Run(lengths);
    EXPECT_THAT(Turning(Dynamic()).Run(lengths),
                Pointwise(FloatNear(1e-3f), expected));
  }
  EXPECT_THAT(
      Turning(Grown(Dynamic(), 9)).Run({30}),
      testing::Not(Pointwise(FloatNear(0.1f), Turning(Dynamic()).Run({30}))));
}

TEST(TurningLayer, KeepsInACacheWhatEarlierCallsTurned) {
  const Turning dynamic(Dynamic()), longrope(Longrope());
  const Turning at_9(Grown(Dynamic(), 9)), at_12(Grown(Dynamic(), 12)),
      at_13(Grown(Dynamic(), 13));
  const std::vector<int64_t> pieces = {5, 7, 1};
  EXPECT_THAT(Turning::RunPieces(pieces, {&dynamic, &dynamic, &dynamic}),
              Pointwise(FloatNear(1e-4f),
                        Turning::RunPieces(pieces, {&at_9, &at_12, &at_13})));
  RopeConfig plain = Longrope();
  plain.long_factors = plain.short_factors;
  const Turning within(plain);
  plain.short_factors = plain.long_factors = Longrope().long_factors;
  const Turning beyond(plain);
  EXPECT_THAT(
      Turning::RunPieces(pieces, {&longrope, &longrope, &longrope}),
      Pointwise(FloatNear(1e-4f),
                Turning::RunPieces(pieces, {&within, &beyond, &beyond})));
}

// Proportional frequencies of 8 dimensions and base b² are those of 4 and base
// b, as far as they turn.
TEST(TurningLayer, OfAShareLeavesTheOtherDimensions) {
  const RopeConfig share = {.head_dim = kDim,
                            .turned = 4,
                            .base = 400,
                            .pairs = RopePairs::kNeighbours};
  RopeConfig whole = share;
  whole.base = 400.0 * 400.0;
  whole.scaling = RopeScaling::kProportional;
  const auto expected = Turning(whole).Run({11, 3});
  EXPECT_THAT(Turning(share).Run({11, 3}),
              Pointwise(FloatNear(1e-3f), expected));
  const Turning a(share), b(whole);
  EXPECT_THAT(
      Turning::RunPieces({5, 7}, {&a, &a}),
      Pointwise(FloatNear(1e-4f), Turning::RunPieces({5, 7}, {&b, &b})));
}

}  // namespace
}  // namespace headwise::rope_table_test
