// The reference: products as they are defined, in double. Door:
// implementation.h.
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "headwise/ops/matmul/implementation.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/half.h"
#include "headwise/tensor/unaligned.h"

namespace headwise {
namespace {

// x[i, j] of a matrix that may be given transposed, at any address.
float At(const ConstTensorView& x, Operand operand, int64_t i, int64_t j) {
  if (operand == Operand::kTransposed) std::swap(i, j);
  const int64_t at = i * x.stride[0] + j * x.stride[1];
  switch (x.type) {
    case DType::kBF16:
      return FromBf16(LoadUnaligned<uint16_t>(x.data, at));
    case DType::kF16:
      return FromF16(LoadUnaligned<uint16_t>(x.data, at));
    default:
      return LoadUnaligned<float>(x.data, at);
  }
}

Reason WhyNot(const MatmulCall& call) {
  return call.args.c.device.is_cpu() ? "" : "reads host memory only";
}

// x/2 · (1 + tanh(√(2/π)(x + 0.044715 x³))) and its slope.
struct Gelu {
  double value, slope;
};
Gelu GeluAt(double x) {
  const double root = std::sqrt(2 / std::numbers::pi), cubic = 0.044715;
  const double t = std::tanh(root * (x + cubic * x * x * x));
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root *
                                                 (1 + 3 * cubic * x * x)};
}

double Silu(double x) { return x / (1 + std::exp(-x)); }

// A·B + bias at [i, j], as C stores it.
double Finished(const MatmulCall& call, double sum, int64_t i, int64_t j) {
  const TensorView& inner = call.args.inner;
  switch (call.problem.epilogue) {
    case Epilogue::kNone:
    case Epilogue::kSiluGated:
      return sum;
    case Epilogue::kGeluTanh:
      if (inner) Write(inner, sum, i, j);
      return GeluAt(sum).value;
    case Epilogue::kGeluTanhBackward:
      return sum * GeluAt(Read(inner, i, j)).slope;
  }
  return sum;
}

// round(x): an operand's number as it is multiplied.
template <typename Round>
void MultiplyRounded(const MatmulCall& call, const Round& round) {
  const auto& [problem, args] = call;
  const Operand operand = OperandOfB(call);
  int64_t j = 0;
  for (const ConstTensorView& part : PartsOf(args)) {
    for (int64_t column = 0; column < ColumnsOf(part, operand); ++column, ++j) {
      for (int64_t i = 0; i < problem.m; ++i) {
        double sum = args.bias ? Read(args.bias, j) : 0.0;
        if (problem.store == Store::kAccumulate) sum += Read(args.c, i, j);
        for (int64_t p = 0; p < problem.k; ++p) {
          sum += double{round(At(args.a, problem.a, i, p))} *
                 round(At(part, operand, p, column));
        }
        Write(args.c, Finished(call, sum, i, j), i, j);
      }
    }
  }
}

void Multiply(const MatmulCall& call) {
  const Precision to = call.problem.precision;
  to == Precision::kStored
      ? MultiplyRounded(call, [](float x) { return x; })
      : MultiplyRounded(call, [&](float x) { return RoundedTo(to, x); });
}

// z and u as a whole first, in f32.
void RunGated(const MatmulCall& call) {
  Tensor both(DType::kF32, {call.problem.m, call.problem.n});
  MatmulProblem problem = call.problem;
  problem.epilogue = Epilogue::kNone;
  MatmulArgs args = call.args;
  args.c = both.view();
  Multiply({problem, args});
  const int64_t half = ColumnsOfC(call.problem);
  for (int64_t i = 0; i < problem.m; ++i) {
    for (int64_t j = 0; j < half; ++j) {
      Write(call.args.c, Silu(Read(args.c, i, j)) * Read(args.c, i, half + j),
            i, j);
    }
  }
}

void Run(Context&, const MatmulCall& call) {
  call.problem.epilogue == Epilogue::kSiluGated ? RunGated(call)
                                                : Multiply(call);
}

}  // namespace

const Implementation<MatmulCall> kMatmulReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
