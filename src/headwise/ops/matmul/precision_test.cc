// Products whose precision is asked for.
#include "headwise/ops/precision.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/matmul/implementation.h"
#include "headwise/tensor/element.h"

namespace headwise::precision_test {
namespace {

// A matrix of any type and its numbers rounded to a precision, as f32.
struct Operands {
  Operands(Rng& rng, const Shape& shape, DType type, Precision to)
      : bytes(BytesOf(type, shape[0] * shape[1]), 0),
        rounded(shape[0] * shape[1]),
        stored(bytes.data(), type, shape),
        as_f32(View(rounded.data(), shape)) {
    const TensorView flat(bytes.data(), type, {shape[0] * shape[1]});
    for (int64_t i = 0; i < flat.shape[0]; ++i) {
      Write(flat, rng.Normal(), i);
      rounded[i] = RoundedTo(to, static_cast<float>(Read(flat, i)));
    }
  }
  std::string bytes;
  std::vector<float> rounded;
  ConstTensorView stored, as_f32;
};

std::vector<float> Product(Context& context, MatmulProblem problem,
                           const ConstTensorView& a, const ConstTensorView& b,
                           bool prepared) {
  std::vector<float> c(problem.m * problem.n, 0.5f);
  MatmulArgs args;
  args.a = a;
  args.c = View(c.data(), {problem.m, problem.n});
  const auto weights = Prepare({b}, problem.b);
  if (prepared) {
    args.weights = weights.get();
  } else {
    args.b = b;
  }
  Matmul(context, problem, args);
  return c;
}

TEST(MatmulPrecision, TheReferenceRoundsBothOperandsAndNothingElse) {
  constexpr uint64_t kSeed = 21;
  Rng rng(kSeed);
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};
  Context any({2, ""}), reference({1, "matmul:reference"});
  for (int round = 0; round < 60; ++round) {
    MatmulProblem problem = {rng.Between(1, 12), rng.Between(1, 12),
                             rng.Between(1, 30)};
    problem.b = rng.Below(2) != 0 ? Operand::kPlain : Operand::kTransposed;
    problem.store = rng.Below(2) != 0 ? Store::kOverwrite : Store::kAccumulate;
    const Precision to = rng.Below(2) != 0 ? Precision::kBF16 : Precision::kF16;
    const int64_t n = problem.n, k = problem.k;
    const Operands a(rng, {problem.m, k}, kTypes[rng.Below(3)], to);
    const Operands b(rng,
                     problem.b == Operand::kPlain ? Shape{k, n} : Shape{n, k},
                     kTypes[rng.Below(3)], to);
    const bool prepared = rng.Below(2) != 0;
    const auto expected =
        Product(reference, problem, a.as_f32, b.as_f32, prepared);
    problem.precision = to;
    // Nothing else of the host takes it yet.
    for (Context* context : {&any, &reference}) {
      EXPECT_EQ(Product(*context, problem, a.stored, b.stored, prepared),
                expected)
          << "seed " << kSeed << ", round " << round << ": "
          << ToString(problem) << " of " << Name(a.stored.type) << " and "
          << Name(b.stored.type);
    }
  }
}

TEST(MatmulPrecision, EntriesSayWhatTheyHaveNoProductsIn) {
  MatmulProblem problem = {4, 4, 4};
  std::vector<float> values(16), c(16);
  MatmulArgs args;
  args.a = args.b = View(std::as_const(values).data(), {4, 4});
  args.c = View(c.data(), {4, 4});
  problem.precision = Precision::kBF16;
  int refused = 0;
  for (const auto& entry : MatmulImplementations().entries) {
    const std::string name = entry.name, why = entry.why_not({problem, args});
    if (name == "reference") {
      EXPECT_EQ(why, "");
    } else if (name.starts_with("cpu.")) {
      EXPECT_EQ(why, "has no products in bf16 of f32 operands") << name;
      ++refused;
    }
  }
  EXPECT_GE(refused, 3);
  Context packed({1, "matmul:cpu.f32"});
  try {
    Matmul(packed, problem, args);
    ADD_FAILURE() << "cpu.f32 took it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("no products in bf16"),
              std::string::npos)
        << error.what();
  }
}

TEST(MatmulPrecision, OperandsOfTheTypeThatIsAskedForAreTaken) {
  EXPECT_EQ(WhyNotPrecision(Precision::kStored, DType::kF32), "");
  EXPECT_EQ(WhyNotPrecision(Precision::kBF16, DType::kBF16), "");
  EXPECT_EQ(WhyNotPrecision(Precision::kF16, DType::kF16), "");
  EXPECT_EQ(WhyNotPrecision(Precision::kF16, DType::kBF16),
            "has no products in f16 of bf16 operands");
  EXPECT_EQ(WhyNotPrecision(Precision::kBF16, DType::kF32),
            "has no products in bf16 of f32 operands");
}

TEST(MatmulPrecision, IsPartOfTheProblem) {
  MatmulProblem problem = {1, 2, 3}, other = problem;
  EXPECT_EQ(ToString(problem), "1 × 2 × 3");
  other.precision = Precision::kF16;
  EXPECT_FALSE(problem == other);
  EXPECT_EQ(ToString(other), "1 × 2 × 3, in f16");
  Context context({1, ""});
  std::vector<float> values(6), c(2);
  MatmulArgs args;
  args.a = View(std::as_const(values).data(), {1, 3});
  args.b = View(std::as_const(values).data(), {3, 2});
  args.c = View(c.data(), {1, 2});
  EXPECT_NO_THROW(Matmul(context, other, args));
  other.precision = static_cast<Precision>(3);
  EXPECT_THROW(Matmul(context, other, args), Error);
}

}  // namespace
}  // namespace headwise::precision_test
