#include "headwise/ops/matmul/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/matmul/cpu/half_dots.h"
#include "headwise/ops/matmul/implementation.h"
#include "headwise/tensor/half.h"

namespace headwise {
namespace {

std::vector<float> Random(int64_t count, uint64_t stream) {
  Rng rng(7, stream);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.Normal());
  return values;
}

// One product with its memory; rows of A and C have `gap` unused numbers.
struct Case {
  MatmulProblem problem;
  int64_t gap = 0;
  bool bias = false;
  bool prepared = false;
  int64_t parts = 1;  // of B
  DType b_type = DType::kF32;

  int64_t ARows() const {
    return problem.a == Operand::kPlain ? problem.m : problem.k;
  }
  int64_t AColumns() const {
    return problem.a == Operand::kPlain ? problem.k : problem.m;
  }

  std::vector<float> Run(Context& context,
                         const Implementation<MatmulCall>* entry) const {
    const auto& p = problem;
    auto a = Random(ARows() * (AColumns() + gap), 1);
    const float unit = 1.0f / std::sqrt(std::max<float>(1, p.k));
    for (float& value : a) value *= unit;
    const auto b = Random(p.k * p.n, 2);
    std::vector<uint16_t> half(b.size());
    for (size_t i = 0; i < b.size(); ++i) {
      half[i] = b_type == DType::kF16 ? ToF16(b[i]) : ToBf16(b[i]);
    }
    const auto offsets = Random(p.n, 3);
    auto c = Random(p.m * (p.n + gap), 4);
    MatmulArgs args;
    args.a = View(a.data(), {ARows(), AColumns()});
    args.a.stride[0] = AColumns() + gap;
    args.b = p.b == Operand::kPlain ? View(b.data(), {p.k, p.n})
                                    : View(b.data(), {p.n, p.k});
    if (b_type != DType::kF32) {
      args.b.data = half.data();
      args.b.type = b_type;
    }
    args.c = View(c.data(), {p.m, p.n});
    args.c.stride[0] = p.n + gap;
    if (bias) args.bias = View(offsets.data(), {p.n});
    std::vector<ConstTensorView> cut;
    const int axis = p.b == Operand::kPlain ? 1 : 0;
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = p.n * i / parts, end = p.n * (i + 1) / parts;
      ConstTensorView part = args.b;
      part.data =
          static_cast<const char*>(part.data) +
          begin * part.stride[axis] * static_cast<int64_t>(SizeOf(part.type));
      part.shape[axis] = end - begin;
      cut.push_back(part);
    }
    std::shared_ptr<PreparedWeights> weights;
    if (prepared || parts > 1) args.b = {};
    if (prepared) {
      weights = Prepare(cut, p.b);
      args.weights = weights.get();
    } else if (parts > 1) {
      args.parts = cut;
    }
    if (entry == nullptr) {
      Matmul(context, p, args);
    } else if (const std::string why = entry->why_not({p, args}); why.empty()) {
      entry->run(context, {p, args});
    } else {
      return {};
    }
    return c;
  }
};

const Implementation<MatmulCall>& Reference() {
  return MatmulImplementations().entries.back();
}

TEST(Matmul, EveryImplementationAgreesWithTheReference) {
  Rng rng(11);
  Context context({2, ""});
  for (int round = 0; round < 400; ++round) {
    Case x;
    x.problem.m = rng.Between(1, round % 4 == 0 ? 150 : 20);
    x.problem.n = rng.Between(1, round % 5 == 0 ? 420 : 60);
    x.problem.k = rng.Between(round % 7 == 0 ? 0 : 1, 60);
    if (round % 20 == 0) x.problem.k = rng.Between(600, 1500);
    x.problem.a = rng.Below(2) ? Operand::kPlain : Operand::kTransposed;
    x.problem.b = rng.Below(2) ? Operand::kPlain : Operand::kTransposed;
    x.problem.store = rng.Below(2) ? Store::kOverwrite : Store::kAccumulate;
    x.gap = rng.Below(3);
    x.bias = rng.Below(2);
    x.prepared = rng.Below(2) && x.problem.k > 0;
    if (rng.Below(3) == 0) x.parts = std::min<int64_t>(3, x.problem.n);
    const DType types[] = {DType::kF32, DType::kBF16, DType::kF16};
    x.b_type = types[rng.Below(3)];
    const auto truth = x.Run(context, &Reference());
    ASSERT_FALSE(truth.empty());
    for (const auto& entry : MatmulImplementations().entries) {
      const auto c = x.Run(context, &entry);
      for (size_t i = 0; i < c.size(); ++i) {
        ASSERT_NEAR(c[i], truth[i], 2e-5 * std::max(1.0f, std::abs(truth[i])))
            << entry.name << " " << ToString(x.problem) << " at " << i;
      }
    }
  }
}

// How C is cut into tasks follows the threads; what is added up does not.
TEST(Matmul, ResultsDoNotDependOnTheNumberOfThreads) {
  const MatmulProblem problems[] = {
      {150, 400, 900, Operand::kPlain, Operand::kTransposed},
      {150, 52, 900, Operand::kTransposed, Operand::kPlain},
      {12, 409, 70, Operand::kPlain, Operand::kPlain, Store::kAccumulate}};
  Context one({1, ""});
  for (const MatmulProblem& problem : problems) {
    Case x;
    x.problem = problem;
    const auto a = x.Run(one, nullptr);
    for (const int threads : {2, 3, 16}) {
      Context several({threads, ""});
      const auto b = x.Run(several, nullptr);
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0)
          << ToString(problem) << " with " << threads << " threads";
    }
  }
  Context three({3, ""});
  for (const Operand operand : {Operand::kPlain, Operand::kTransposed}) {
    Case x;
    x.problem = {3, 700, 300, Operand::kPlain, operand};
    x.b_type = DType::kF16;
    EXPECT_EQ(x.Run(one, nullptr), x.Run(three, nullptr));
  }
}

TEST(Matmul, HalvesFourLinesAtATimeAgreeWithTheReference) {
  if (!HasHalfDots()) GTEST_SKIP() << "no such instructions here";
  Rng rng(5);
  Context one({1, "matmul:cpu.half_rows"});
  Context three({3, "matmul:cpu.half_rows"});
  for (int round = 0; round < 60; ++round) {
    Case x;
    x.problem = {rng.Between(1, 2), rng.Between(1, 400), rng.Between(1, 300),
                 Operand::kPlain, Operand::kTransposed};
    x.problem.store = rng.Below(2) ? Store::kOverwrite : Store::kAccumulate;
    x.bias = rng.Below(2);
    x.gap = rng.Below(3);
    x.b_type = DType::kF16;
    x.prepared = true;
    const auto truth = x.Run(one, &Reference());
    const auto c = x.Run(one, nullptr);
    for (size_t i = 0; i < c.size(); ++i) {
      ASSERT_NEAR(c[i], truth[i], 2e-5 * std::max(1.0f, std::abs(truth[i])))
          << ToString(x.problem) << " at " << i;
    }
    EXPECT_EQ(c, x.Run(three, nullptr));
  }
}

TEST(Matmul, NothingToMultiplyGivesTheBias) {
  Context context({1, ""});
  Case x;
  x.problem = {3, 5, 0};
  x.bias = true;
  const auto c = x.Run(context, nullptr);
  const auto bias = Random(5, 3);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(c[i], bias[i % 5]);
}

TEST(Matmul, RefusesImpossibleArguments) {
  Context context({1, ""});
  std::vector<float> data(100);
  const auto refused = [&](const MatmulProblem& p, const MatmulArgs& args) {
    EXPECT_THROW(Matmul(context, p, args), Error);
  };
  MatmulArgs good;
  good.a = View(data.data(), {2, 3});
  good.b = View(data.data() + 10, {3, 4});
  good.c = View(data.data() + 30, {2, 4});
  const MatmulProblem p = {2, 4, 3};
  EXPECT_NO_THROW(Matmul(context, p, good));

  refused({-1, 4, 3}, good);
  refused({2, 4, 4}, good);
  MatmulArgs bad = good;
  bad.c = View(data.data() + 12, {2, 4});  // inside B
  refused(p, bad);
  bad = good;
  bad.a.type = DType::kF64;
  refused(p, bad);
  bad = good;
  bad.b = {};
  refused(p, bad);
  bad = good;
  bad.a.stride = {6, 2};
  refused(p, bad);
  bad = good;
  bad.bias = View(data.data() + 50, {3});
  refused(p, bad);
  const auto other =
      Prepare({View(std::as_const(data).data(), {5, 4})}, Operand::kPlain);
  bad = good;
  bad.weights = other.get();
  refused(p, bad);
  const ConstTensorView parts[] = {good.b, good.b};
  bad = good;
  bad.parts = parts;
  refused(p, bad);
  EXPECT_THROW(Prepare({ConstTensorView()}, Operand::kPlain), Error);
}

TEST(Matmul, WeightsMayLieAtOddAddresses) {
  Context context({2, ""});
  const int64_t m = 20, n = 901, k = 13;  // more than is turned at a time
  const std::vector<float> values = Random(n * k, 3), a = Random(m * k, 4);
  std::vector<uint16_t> half(n * k);
  for (int64_t i = 0; i < n * k; ++i) half[i] = ToF16(values[i]);
  for (const Operand operand : {Operand::kPlain, Operand::kTransposed}) {
    const bool plain = operand == Operand::kPlain;
    for (const DType type : {DType::kF32, DType::kF16}) {
      const size_t bytes = n * k * SizeOf(type);
      const void* from = type == DType::kF32
                             ? static_cast<const void*>(values.data())
                             : static_cast<const void*>(half.data());
      std::vector<char> odd(bytes + 1);
      std::memcpy(odd.data() + 1, from, bytes);
      for (const int64_t rows : {int64_t{2}, m}) {
        const auto product = [&](const void* where) {
          int releases = 0;
          const ConstTensorView b(where, type, {plain ? k : n, plain ? n : k});
          const auto weights = Prepare({b}, operand, [&] { ++releases; });
          std::vector<float> c(rows * n);
          const MatmulArgs args = {.a = View(a.data(), {rows, k}),
                                   .weights = weights.get(),
                                   .c = View(c.data(), {rows, n})};
          for (int i = 0; i < 2; ++i) Matmul(context, {rows, n, k}, args);
          EXPECT_EQ(releases, PreparedBytes(*weights) > 0 ? 1 : 0);
          return c;
        };
        const auto found = product(odd.data() + 1), expected = product(from);
        for (size_t i = 0; i < found.size(); ++i) {
          ASSERT_NEAR(found[i], expected[i], 1e-5);
        }
      }
    }
  }
}

TEST(Matmul, HonoursThePreferredImplementation) {
  Case x;
  x.problem = {4, 4, 4};
  Context reference({1, "matmul:reference"});
  EXPECT_EQ(x.Run(reference, nullptr), x.Run(reference, &Reference()));
  Context unknown({1, "matmul:nosuch"});
  EXPECT_THROW(x.Run(unknown, nullptr), Error);
}

}  // namespace
}  // namespace headwise
