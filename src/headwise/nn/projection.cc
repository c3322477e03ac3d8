// Positions of a batch as the rows of one matrix where the strides allow it,
// else one product per sequence. Door: projection.h.
#include "headwise/nn/projection.h"

#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

template <typename View>
bool IsOneMatrix(const View& view) {
  return view.shape[0] <= 1 || view.stride[0] == view.shape[1] * view.stride[1];
}

// [B, M, n] as `count` matrices: 1 of B·M rows, or B of M rows.
template <typename View>
View Matrix(const View& view, int64_t count, int64_t index) {
  if (count == 1) {
    return Reshaped(view, {view.shape[0] * view.shape[1], view.shape[2]});
  }
  return At(view, 0, index);
}

template <typename A, typename B>
int64_t MatrixCount(const A& a, const B& b) {
  return IsOneMatrix(a) && IsOneMatrix(b) ? 1 : a.shape[0];
}

bool IsEmpty(const ConstTensorView& view) {
  return view.shape[0] == 0 || view.shape[1] == 0;
}

}  // namespace

void Project(Context& context, const ConstTensorView& x,
             const ConstTensorView& w, const ConstTensorView& bias,
             const TensorView& out) {
  if (IsEmpty(x)) return;
  const int64_t count = MatrixCount(x, out);
  for (int64_t i = 0; i < count; ++i) {
    MatmulArgs args;
    args.a = Matrix(x, count, i);
    args.b = w;
    args.bias = bias;
    args.c = Matrix(out, count, i);
    MatmulProblem problem;
    problem.m = args.a.shape[0];
    problem.n = w.shape[1];
    problem.k = w.shape[0];
    Matmul(context, problem, args);
  }
}

void ProjectBackward(Context& context, const ConstTensorView& dout,
                     const ConstTensorView& w, const TensorView& dx,
                     Store store) {
  if (IsEmpty(dout)) return;
  const int64_t count = MatrixCount(dout, dx);
  for (int64_t i = 0; i < count; ++i) {
    MatmulArgs args;
    args.a = Matrix(dout, count, i);
    args.b = w;
    args.c = Matrix(dx, count, i);
    MatmulProblem problem;
    problem.m = args.a.shape[0];
    problem.n = w.shape[0];
    problem.k = w.shape[1];
    problem.b = Operand::kTransposed;
    problem.store = store;
    Matmul(context, problem, args);
  }
}

void ProjectGradient(Context& context, const ConstTensorView& x,
                     const ConstTensorView& dout, const TensorView& dw,
                     const TensorView& dbias) {
  if (IsEmpty(x)) return;
  const int64_t count = MatrixCount(x, dout);
  for (int64_t i = 0; i < count; ++i) {
    MatmulArgs args;
    args.a = Matrix(x, count, i);
    args.b = Matrix(dout, count, i);
    args.c = dw;
    MatmulProblem problem;
    problem.m = dw.shape[0];
    problem.n = dw.shape[1];
    problem.k = args.a.shape[0];
    problem.a = Operand::kTransposed;
    problem.store = Store::kAccumulate;
    Matmul(context, problem, args);
  }
  if (dbias) AddColumnSums(context, dout, dbias);
}

}  // namespace headwise
