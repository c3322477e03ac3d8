// Matrix products as they are defined, in double: what the others are held to.
// Door: matmul.h.
#include "headwise/ops/matmul/cpu/f32.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/tensor/half.h"

namespace headwise {
namespace {

// x[i, j] of a matrix that may be given transposed.
float At(const ConstTensorView& x, Operand operand, int64_t i, int64_t j) {
  if (operand == Operand::kTransposed) std::swap(i, j);
  const int64_t at = i * x.stride[0] + j * x.stride[1];
  switch (x.type) {
    case DType::kBF16:
      return FromBf16(x.As<uint16_t>()[at]);
    case DType::kF16:
      return FromF16(x.As<uint16_t>()[at]);
    default:
      return x.As<float>()[at];
  }
}

float PackedAt(const PackedMatrix& b, int64_t p, int64_t j) {
  const int64_t width = PackedColumns();
  return b.data()[((j / width) * b.k() + p) * width + j % width];
}

void Run(Context&, const MatmulProblem& problem, const MatmulArgs& args) {
  for (int64_t i = 0; i < problem.m; ++i) {
    for (int64_t j = 0; j < problem.n; ++j) {
      float& c = args.c.As<float>()[i * args.c.stride[0] + j];
      double sum = args.bias ? args.bias.As<float>()[j] : 0.0;
      if (problem.store == Store::kAccumulate) sum += c;
      for (int64_t p = 0; p < problem.k; ++p) {
        const float b = args.packed_b != nullptr
                            ? PackedAt(*args.packed_b, p, j)
                        : args.half_b != nullptr ? args.half_b->At(p, j)
                                                 : At(args.b, problem.b, p, j);
        sum += double{At(args.a, problem.a, i, p)} * b;
      }
      c = static_cast<float>(sum);
    }
  }
}

}  // namespace

const MatmulImplementation kMatmulReference = {
    "reference", [](const MatmulProblem&) { return std::string(); }, Run};

}  // namespace headwise
