// Products whose lines are long and no whole packs of 16 bytes, and lie at
// multiples of them: every entry against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/ops/matmul/implementation.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/ops/test_device.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/slice.h"

namespace headwise::long_lines_test {
namespace {

constexpr int64_t kLong = 4096 + 17, kPack = 8;

// A matrix whose lines lie at multiples of kPack elements.
struct Matrix {
  Matrix(DType type, int64_t rows, int64_t columns, uint64_t stream)
      : line((columns + kPack - 1) / kPack * kPack),
        bytes(BytesOf(type, rows * line), 0),
        all(bytes.data(), type, {rows, line}),
        view(Columns(all, 0, columns)) {
    Rng rng(7, stream);
    const TensorView flat(bytes.data(), type, {rows * line});
    const double unit = std::pow(static_cast<double>(columns), -0.25);
    for (int64_t i = 0; i < rows * line; ++i) {
      Write(flat, static_cast<float>(unit * rng.Normal()), i);
    }
  }
  int64_t line;
  std::string bytes;
  TensorView all, view;
};

struct Product {
  MatmulProblem problem;
  DType type, c_type;
  bool bias;
};

// C with what lies between its rows; nothing where the entry does not take it.
std::vector<float> Run(const Product& x, Context& context,
                       const Implementation<MatmulCall>& entry) {
  const auto& [problem, type, c_type, bias] = x;
  const int64_t m = problem.m, n = problem.n, k = problem.k;
  const bool a_plain = problem.a == Operand::kPlain;
  const bool b_plain = problem.b == Operand::kPlain;
  const Matrix a(type, a_plain ? m : k, a_plain ? k : m, 1);
  const Matrix b(type, b_plain ? k : n, b_plain ? n : k, 2);
  const Matrix offsets(DType::kF32, 1, n, 3);
  Matrix c(c_type, m, n, 4);
  Mirror at(context);
  at(ConstTensorView(a.all));  // whole, so that lines keep their places
  at(ConstTensorView(b.all));
  at(c.all);
  MatmulArgs args;
  args.a = at(ConstTensorView(a.view));
  args.b = at(ConstTensorView(b.view));
  args.c = at(c.view);
  const ConstTensorView shift(offsets.bytes.data(), DType::kF32, {n});
  if (bias) args.bias = at(shift);
  if (!entry.why_not({problem, args}).empty()) return {};
  entry.run(context, {problem, args});
  at.Back();
  std::vector<float> values;
  const ConstTensorView flat(c.bytes.data(), c_type, {m * c.line});
  for (int64_t i = 0; i < m * c.line; ++i) {
    values.push_back(static_cast<float>(Read(flat, i)));
  }
  return values;
}

void ExpectAgreement(const Product& x) {
  const auto& entries = MatmulImplementations().entries;
  Context host({1, ""});
  const std::vector<float> truth = Run(x, host, entries.back());
  const double tolerance = x.c_type == DType::kF32 ? 1e-3 : 2e-2;
  for (const auto& entry : entries) {
    if (&entry == &entries.back()) continue;
    const auto context = ContextFor("matmul", entry.name);
    if (!context) continue;
    const std::vector<float> found = Run(x, *context, entry);
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], truth[i],
                  tolerance * std::max(1.0f, std::abs(truth[i])))
          << entry.name << ", " << ToString(x.problem) << " at " << i;
    }
  }
}

// Along every axis, plain and transposed, stored and added.
TEST(MatmulOfLongLines, EveryEntryAgreesWithTheReference) {
  constexpr Operand kOperands[] = {Operand::kPlain, Operand::kTransposed};
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {9, kLong, 24}, {kLong, 9, 24}, {9, 16, kLong}}) {
    for (const Operand a : kOperands) {
      for (const Operand b : kOperands) {
        for (const Store store : {Store::kOverwrite, Store::kAccumulate}) {
          MatmulProblem problem = {m, n, k, a, b};
          problem.store = store;
          const bool bias = store == Store::kOverwrite;
          ExpectAgreement({problem, DType::kBF16, DType::kBF16, bias});
          ExpectAgreement({problem, DType::kBF16, DType::kF32, bias});
        }
      }
    }
  }
}

}  // namespace
}  // namespace headwise::long_lines_test
