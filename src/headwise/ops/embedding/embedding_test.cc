#include "headwise/ops/embedding/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/embedding/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/ops/test_values.h"

namespace headwise::embedding_test {
namespace {

using testing::HasSubstr;

constexpr EmbeddingProblem kAdd{EmbeddingWrite::kAdd};

// Rows of the table and of the gradients are longer than what is used of them,
// or as long where the width is a multiple of 8.
struct Trial {
  Tensor table, ids, out, dout, dtable;
  int64_t width;

  Trial(DType type, DType out_type, DType id_type, int64_t rows, int64_t count,
        int64_t columns, Rng& rng)
      : width(columns) {
    const bool even = width % 8 == 0;
    table = RandomTensor(type, {rows, width + (even ? 0 : 3)}, rng);
    ids = Tensor(id_type, {count});
    for (int64_t n = 0; n < count; ++n) {
      Write(ids.view(), static_cast<double>(rng.Below(rows)), n);
    }
    out = RandomTensor(out_type, {count, width + (even ? 8 : 1)}, rng);
    dout = RandomTensor(out_type, {count, width + (even ? 8 : 2)}, rng);
    dtable = RandomTensor(DType::kF32, {rows, width}, rng);
  }
  template <typename View>
  View Narrow(View view) const {
    view.shape[1] = width;
    return view;
  }
  EmbeddingArgs Args(Tensor& to) const {
    return {Narrow(table.view()), ids.view(), Narrow(to.view())};
  }
  // out and dtable.
  std::vector<Tensor> Run(Context& context, EmbeddingProblem problem) const {
    std::vector<Tensor> results;
    results.push_back(CopyOf(out));
    results.push_back(CopyOf(dtable));
    Mirror at(context);
    const EmbeddingArgs args = Args(results[0]);
    EmbeddingForward(context, problem,
                     {at(args.table), at(args.ids), at(args.out)});
    EmbeddingBackward(context, at(args.ids),
                      {at(Narrow(dout.view())), at(results[1].view())});
    at.Back();
    return results;
  }
};

// Holds an entry to the reference. False where it does not take the types.
bool Agrees(Context& context, EmbeddingProblem problem, const Trial& trial) {
  Context reference({1, "embedding:reference"});
  std::vector<Tensor> found;
  if (!IsTaken([&] { found = trial.Run(context, problem); })) return false;
  ExpectNear(found, trial.Run(reference, problem), Tolerance(trial.out.type()));
  return true;
}

TEST(Embedding, EveryImplementationAgreesWithTheReference) {
  const uint64_t seed = 20264;
  const std::vector<DType> types = {DType::kF32, DType::kBF16, DType::kF16};
  for (const auto& entry : EmbeddingImplementations().entries) {
    const auto context = ContextFor("embedding", entry.name);
    if (!context) continue;
    Rng rng(seed);
    int taken = 0;
    for (int round = 0; round < 60; ++round) {
      const DType out = rng.Below(2) == 0 ? DType::kF32 : types[rng.Below(3)];
      const DType ids = rng.Below(2) == 0 ? DType::kI32 : DType::kI64;
      const int64_t width =
          round % 3 == 0 ? 8 * rng.Between(1, 6) : rng.Between(1, 50);
      Trial trial(types[rng.Below(3)], out, ids, rng.Between(1, 40),
                  rng.Between(0, 200), width, rng);
      SCOPED_TRACE(std::string(entry.name) + " " +
                   ToString(trial.table.view()) + " round " +
                   std::to_string(round));
      taken += Agrees(*context, rng.Below(2) == 0 ? kAdd : EmbeddingProblem{},
                      trial);
    }
    EXPECT_GE(taken, 20) << entry.name;
  }
}

// Ids that are much too frequent for one worker, and those between them.
TEST(Embedding, AnIdMayBeMostOfTheInput) {
  Rng rng(21);
  Trial trial(DType::kF32, DType::kF32, DType::kI32, 9, 2000, 8, rng);
  for (int64_t n = 0; n < 2000; ++n) {
    if (n % 13 != 0) Write(trial.ids.view(), 4, n);
    Write(trial.dout.view(), 0.1 * Read(trial.dout.view(), n, 0), n, 0);
  }
  for (const auto& entry : EmbeddingImplementations().entries) {
    const auto context = ContextFor("embedding", entry.name);
    if (!context) continue;
    SCOPED_TRACE(entry.name);
    EXPECT_TRUE(Agrees(*context, {}, trial));
    const auto once = trial.Run(*context, {}), again = trial.Run(*context, {});
    EXPECT_EQ(ToVector(once[1].view()), ToVector(again[1].view()));
  }
}

TEST(Embedding, TheReferenceGathersRowsOfEveryType) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> ids = {2, 0, 2};
  const ConstTensorView wanted(ids.data(), DType::kI32, {3});
  Context context({1, "embedding:reference"});
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    Tensor table(type, {3, 2});
    for (int i = 0; i < 6; ++i) Write(table.view(), values[i], i / 2, i % 2);
    std::vector<float> out(6, 100);
    const TensorView to = View(out.data(), {3, 2});
    EmbeddingForward(context, {}, {table.view(), wanted, to});
    EXPECT_EQ(out, (std::vector<float>{5, 6, 1, 2, 5, 6}));
    EmbeddingForward(context, kAdd, {table.view(), wanted, to});
    EXPECT_EQ(out, (std::vector<float>{10, 12, 2, 4, 10, 12}));
  }
}

// Σ out · dout has the slope dout of every row that was read.
TEST(Embedding, TheReferencesGradientsAreSlopes) {
  Rng rng(2);
  Context context({1, "embedding:reference"});
  Trial trial(DType::kF32, DType::kF64, DType::kI64, 5, 12, 3, rng);
  Tensor dtable(DType::kF32, {5, 3}), out(DType::kF64, {12, 4});
  EmbeddingBackward(context, trial.ids.view(),
                    {trial.Narrow(trial.dout.view()), dtable.view()});
  const auto loss = [&] {
    EmbeddingForward(context, {}, trial.Args(out));
    double sum = 0;
    for (int64_t n = 0; n < 12; ++n) {
      for (int64_t i = 0; i < 3; ++i) {
        sum += Read(out.view(), n, i) * Read(trial.dout.view(), n, i);
      }
    }
    return sum;
  };
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t i = 0; i < 3; ++i) {
      float& value = trial.table.As<float>()[row * 6 + i];
      const double before = loss();
      value += 1;  // linear: any step will do
      EXPECT_NEAR(dtable.As<float>()[row * 3 + i], loss() - before, 1e-5);
      value -= 1;
    }
  }
}

TEST(Embedding, TablesMayLieAtAnyAddress) {
  Rng rng(3);
  for (const auto& entry : EmbeddingImplementations().entries) {
    const auto context = ContextFor("embedding", entry.name);
    if (!context) continue;
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      const Tensor table = RandomTensor(type, {4, 3}, rng);
      std::vector<char> memory(table.bytes() + 1);
      std::memcpy(memory.data() + 1, table.view().data, table.bytes());
      const int64_t id = 2;
      std::vector<float> out(3);
      Mirror at(*context);
      const ConstTensorView anywhere(memory.data() + 1, type, {4, 3});
      EmbeddingForward(*context, {},
                       {.table = at(anywhere),
                        .ids = at(ConstTensorView(&id, DType::kI64, {1})),
                        .out = at(View(out.data(), {1, 3}))});
      at.Back();
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_EQ(out[i], Read(table.view(), id, i)) << entry.name;
      }
    }
  }
}

TEST(Embedding, AnIdOutsideTheTableIsNamed) {
  const std::vector<float> table(6);
  std::vector<float> out(4);
  const std::vector<int32_t> ids = {1, 3};
  Context context({1, ""});
  try {
    EmbeddingForward(context, {},
                     {.table = View(table.data(), {3, 2}),
                      .ids = {ids.data(), DType::kI32, {2}},
                      .out = View(out.data(), {2, 2})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().found, "3 at position 1");
  }
}

// A device does not stop to tell the host.
TEST(Embedding, OnADeviceAnIdOutsideTheTableShowsAsNaN) {
  const auto context = ContextFor("embedding", "cuda");
  if (!context) GTEST_SKIP() << "no GPU";
  const std::vector<float> table = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> ids = {1, 3, -1};
  std::vector<float> out(6), dtable(6);
  Mirror at(*context);
  const ConstTensorView wanted =
      at(ConstTensorView(ids.data(), DType::kI32, {3}));
  EmbeddingForward(*context, {},
                   {.table = at(View(table.data(), {3, 2})),
                    .ids = wanted,
                    .out = at(View(out.data(), {3, 2}))});
  EmbeddingBackward(*context, wanted,
                    {.dout = at(View(table.data(), {3, 2})),
                     .dtable = at(View(dtable.data(), {3, 2}))});
  at.Back();
  EXPECT_EQ(out[0], 3);
  for (int i = 2; i < 6; ++i) EXPECT_TRUE(std::isnan(out[i])) << i;
  EXPECT_EQ(dtable, (std::vector<float>{0, 0, 1, 2, 0, 0}));
}

TEST(Embedding, WhatDoesNotFitIsNamed) {
  Context context({1, ""});
  Tensor table(DType::kF32, {3, 2}), numbers(DType::kI32, {3, 2}),
      ids(DType::kI32, {4}), out(DType::kF32, {4, 2}),
      wide(DType::kF32, {4, 3}), half(DType::kBF16, {3, 2});
  const auto forward = [&](const EmbeddingArgs& args) {
    return ErrorOf([&] { EmbeddingForward(context, {}, args); });
  };
  EXPECT_THAT(forward({numbers.view(), ids.view(), out.view()}),
              HasSubstr("a table of f32, bf16 or f16"));
  EXPECT_THAT(forward({table.view(), ids.view(), wide.view()}),
              HasSubstr("out f32 [4, 2]"));
  EXPECT_THAT(forward({table.view(), ids.view(), {}}),
              HasSubstr("out f32 [4, 2]; found none"));
  ConstTensorView elsewhere = ids.view();
  elsewhere.device = Device::Cuda(0);
  EXPECT_THAT(forward({table.view(), elsewhere, out.view()}),
              HasSubstr("ids i32 [4]"));
  EXPECT_THAT(
      ErrorOf([&] {
        EmbeddingBackward(context, ids.view(), {out.view(), half.view()});
      }),
      HasSubstr("dtable f32 [3, 2]"));
  EXPECT_THAT(
      ErrorOf([&] {
        EmbeddingBackward(context, ids.view(), {wide.view(), table.view()});
      }),
      HasSubstr("dout f32 [4, 2]"));
}

}  // namespace
}  // namespace headwise::embedding_test
