// Validation and dispatch of matrix products. Door: matmul.h.
#include "headwise/ops/matmul/matmul.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "headwise/ops/check_view.h"
#include "headwise/ops/matmul/implementation.h"
#include "headwise/ops/precision.h"

namespace headwise {
namespace {

bool IsFloat(DType type) {
  return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
}

void CheckMatrix(const char* name, const ConstTensorView& view, int64_t rows,
                 int64_t columns) {
  const bool empty = rows == 0 || columns == 0;
  if (view.data == nullptr && empty) return;
  if (view.data == nullptr || !IsFloat(view.type) || view.rank != 2 ||
      view.shape[0] != rows || view.shape[1] != columns) {
    Refuse("matmul",
           fmt::format("{} as f32, bf16 or f16 [{}, {}]", name, rows, columns),
           view ? ToString(view) : "null");
  }
  if (!empty && view.stride[0] != 1 && view.stride[1] != 1) {
    Refuse("matmul", fmt::format("a stride of 1 in {}", name),
           fmt::format("{} and {}", view.stride[0], view.stride[1]));
  }
}

// The bytes that a rank-2 view spans.
struct Extent {
  const char* begin;
  const char* end;
};
Extent ExtentOf(const ConstTensorView& view) {
  int64_t low = 0;
  int64_t high = 1;
  for (int axis = 0; axis < view.rank; ++axis) {
    const int64_t reach = view.stride[axis] * (view.shape[axis] - 1);
    (reach < 0 ? low : high) += reach;
  }
  const char* data = static_cast<const char*>(view.data);
  const int64_t size = ElementSize(view.type);
  return {data + low * size, data + high * size};
}

void CheckApart(const char* name, const ConstTensorView& operand,
                const ConstTensorView& c) {
  if (operand.data == nullptr) return;
  const Extent x = ExtentOf(operand);
  const Extent y = ExtentOf(c);
  if (x.begin < y.end && y.begin < x.end) {
    Refuse("matmul", fmt::format("C apart from {}", name),
           "overlapping memory");
  }
}

// However it is given.
void CheckB(const MatmulProblem& problem, const MatmulArgs& args) {
  const int64_t n = problem.n, k = problem.k;
  if (args.weights != nullptr) {
    if (args.weights->n() != n || args.weights->k() != k) {
      Refuse("matmul", fmt::format("weights of {} × {}", k, n),
             fmt::format("{} × {}", args.weights->k(), args.weights->n()));
    }
    return;
  }
  const bool transposed = problem.b == Operand::kTransposed;
  const auto check = [&](const ConstTensorView& b, int64_t columns) {
    CheckMatrix("B", b, transposed ? columns : k, transposed ? k : columns);
  };
  if (args.parts.empty()) return check(args.b, n);
  int64_t columns = 0;
  for (const ConstTensorView& part : args.parts) {
    check(part, ColumnsOf(part, problem.b));
    columns += ColumnsOf(part, problem.b);
  }
  if (columns != n) {
    Refuse("matmul", fmt::format("parts of B with {} columns", n),
           fmt::format("{}", columns));
  }
}

void CheckC(const MatmulProblem& problem, const MatmulArgs& args) {
  const int64_t m = problem.m, n = ColumnsOfC(problem);
  CheckMatrix("C", args.c, m, n);
  if (m == 0 || n == 0) return;
  if (args.c.type != DType::kF32 && args.c.type != args.a.type) {
    Refuse("matmul", std::string("C as f32 or, like A, ") + Name(args.a.type),
           ToString(args.c));
  }
  if (args.c.stride[1] != 1) {
    Refuse("matmul", "C with a last stride of 1",
           fmt::format("{}", args.c.stride[1]));
  }
  if (m > 1 && args.c.stride[0] < n) {
    Refuse("matmul", fmt::format("C with rows at least {} apart", n),
           fmt::format("{}", args.c.stride[0]));
  }
}

void CheckEpilogue(const MatmulProblem& problem, const MatmulArgs& args) {
  if (problem.epilogue == Epilogue::kNone) {
    if (args.inner) Refuse("matmul", "no `inner` without an epilogue", "one");
    return;
  }
  const bool backward = problem.epilogue == Epilogue::kGeluTanhBackward;
  if (problem.store != Store::kOverwrite || (backward && args.bias)) {
    Refuse("matmul",
           "an epilogue that overwrites C, of a backward without a bias",
           ToString(problem));
  }
  if (problem.epilogue == Epilogue::kSiluGated &&
      (args.inner || problem.n % 2 != 0)) {
    Refuse("matmul", "gates beside as many columns, and no `inner`",
           ToString(problem));
  }
  if (!args.inner && !backward) return;
  CheckMatrix("inner", args.inner, problem.m, problem.n);
  if (args.inner.type != args.c.type || args.inner.stride[1] != 1) {
    Refuse("matmul", "`inner` of C's type with a last stride of 1",
           ToString(args.inner));
  }
  CheckApart("inner", args.inner, args.c);
}

void CheckBias(const ConstTensorView& bias, int64_t n, DType c_type) {
  if (!bias) return;
  if ((bias.type == DType::kF32 || bias.type == c_type) && bias.rank == 1 &&
      bias.shape[0] == n && bias.stride[0] == 1) {
    return;
  }
  Refuse("matmul", fmt::format("a dense bias f32 [{}], or of C's type", n),
         ToString(bias));
}

// All on C's device; prepared weights may be the host's.
void CheckDevices(const MatmulArgs& args) {
  const auto check = [&](const char* name, const ConstTensorView& view) {
    if (!view || view.device == args.c.device) return;
    Refuse("matmul", fmt::format("{} on {}", name, ToString(args.c.device)),
           ToString(view));
  };
  check("A", args.a);
  check("inner", args.inner);
  check("bias", args.bias);
  for (const ConstTensorView& part : PartsOf(args)) {
    const bool of_host = args.weights != nullptr && part.device.is_cpu();
    if (!of_host) check("B", part);
  }
}

void Check(const MatmulProblem& problem, const MatmulArgs& args) {
  const auto [m, n, k, a, b, store, epilogue, precision] = problem;
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  if (m < 0 || n < 0 || k < 0 || m > kMax || n > kMax || k > kMax) {
    Refuse("matmul", "sizes between 0 and 2^31 − 1",
           fmt::format("m = {}, n = {}, k = {}", m, n, k));
  }
  if (precision > Precision::kF16) {
    Refuse("matmul", "a precision of stored, bf16 or f16",
           fmt::format("{}", static_cast<int>(precision)));
  }
  const bool at = a == Operand::kTransposed;
  CheckMatrix("A", args.a, at ? k : m, at ? m : k);
  CheckB(problem, args);
  CheckC(problem, args);
  if (m == 0 || n == 0) return;
  CheckBias(args.bias, n, args.c.type);
  CheckEpilogue(problem, args);
  CheckDevices(args);
  CheckApart("A", args.a, args.c);
  for (const ConstTensorView& part : PartsOf(args)) {
    CheckApart("B", part, args.c);
  }
  CheckApart("bias", args.bias, args.c);
}

}  // namespace

std::string ToString(const MatmulProblem& problem) {
  const char* epilogues[] = {"", ", gelu", ", gelu backward", ", gated"};
  const bool asked = problem.precision != Precision::kStored;
  return fmt::format(
      "{} × {} × {}{}{}{}{}{}{}", problem.m, problem.n, problem.k,
      problem.a == Operand::kTransposed ? ", A transposed" : "",
      problem.b == Operand::kTransposed ? ", B transposed" : "",
      problem.store == Store::kAccumulate ? ", added" : "",
      epilogues[static_cast<int>(problem.epilogue)], asked ? ", in " : "",
      asked ? Name(problem.precision) : "");
}

ImplementationList<MatmulCall> MatmulImplementations() {
  static const Implementation<MatmulCall> kList[] = {
      kMatmulCudaRows,   kMatmulCudaLt, kMatmulCpuHalfRows,
      kMatmulCpuFewRows, kMatmulCpuF32, kMatmulReference};
  return {"matmul", kList};
}

void Matmul(Context& context, const MatmulProblem& problem,
            const MatmulArgs& args) {
  Check(problem, args);
  if (problem.m == 0 || problem.n == 0) return;
  Dispatch(context, MatmulImplementations(), MatmulCall{problem, args});
}

bool FusesEpilogue(const Context& context, DType type, Epilogue epilogue,
                   int64_t rows) {
  // Those between are multiplied by an algorithm that has no epilogue.
  constexpr int64_t kFew = 8, kMany = 64;
  if (!context.device().is_cuda()) return false;
  if (epilogue == Epilogue::kSiluGated) return rows <= kFew;
  const bool half = type == DType::kBF16 || type == DType::kF16;
  return half &&
         (rows >= kMany || (rows <= kFew && epilogue == Epilogue::kGeluTanh));
}

Tensor MatrixProduct(Context& context, const Tensor& a, const Tensor& b,
                     Operand a_kind, Operand b_kind) {
  MatmulProblem problem;
  const bool a_plain = a_kind == Operand::kPlain;
  const bool b_plain = b_kind == Operand::kPlain;
  problem.m = a.shape(a_plain ? 0 : 1);
  problem.k = a.shape(a_plain ? 1 : 0);
  problem.n = b.shape(b_plain ? 1 : 0);
  problem.a = a_kind;
  problem.b = b_kind;
  Tensor c(context, DType::kF32, {problem.m, problem.n});
  MatmulArgs args;
  args.a = a.view();
  args.b = b.view();
  args.c = c.view();
  Matmul(context, problem, args);
  return c;
}

}  // namespace headwise
