// Positions of a batch as the rows of one matrix where the strides allow it,
// else one product per sequence. Door: projection.h.
#include "headwise/nn/projection.h"

#include <algorithm>
#include <array>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"

namespace headwise {
namespace {

template <typename View>
bool IsOneMatrix(const View& view) {
  return view.shape[0] <= 1 || view.stride[0] == view.shape[1] * view.stride[1];
}

// [B, M, n] as `count` matrices: 1 of B·M rows, or B of M rows.
template <typename View>
View Matrix(const View& view, int64_t count, int64_t index) {
  View matrix = view;
  matrix.rank = 2;
  matrix.shape = {count == 1 ? view.shape[0] * view.shape[1] : view.shape[1],
                  view.shape[2]};
  matrix.stride = {view.stride[1], view.stride[2]};
  using Byte =
      std::conditional_t<std::is_same_v<View, TensorView>, char, const char>;
  matrix.data =
      static_cast<Byte*>(view.data) +
      index * view.stride[0] * static_cast<int64_t>(SizeOf(view.type));
  return matrix;
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
  if (!dbias) return;
  std::vector<double> sums(static_cast<size_t>(dbias.shape[0]));
  for (int64_t b = 0; b < dout.shape[0]; ++b) {
    for (int64_t m = 0; m < dout.shape[1]; ++m) {
      const float* row =
          dout.As<float>() + b * dout.stride[0] + m * dout.stride[1];
      for (size_t n = 0; n < sums.size(); ++n) sums[n] += row[n];
    }
  }
  for (size_t n = 0; n < sums.size(); ++n) {
    dbias.As<float>()[n] += static_cast<float>(sums[n]);
  }
}

void AddColumnSums(Context& context, const ConstTensorView& x, float* sums) {
  constexpr int64_t kColumns = 64;  // of a task
  const int64_t columns = x.shape[1];
  context.pool().ParallelFor(
      (columns + kColumns - 1) / kColumns, [&](int64_t task, int) {
        const int64_t begin = task * kColumns;
        const int64_t count = std::min(kColumns, columns - begin);
        std::array<double, kColumns> totals{};
        for (int64_t r = 0; r < x.shape[0]; ++r) {
          const float* row = x.As<float>() + r * x.stride[0] + begin;
          for (int64_t c = 0; c < count; ++c) totals[c] += row[c];
        }
        for (int64_t c = 0; c < count; ++c) {
          sums[begin + c] += static_cast<float>(totals[c]);
        }
      });
}

Scratch KeepCopy(Context& context, const ConstTensorView& x) {
  const int64_t rows = x.shape[0], width = x.shape[1];
  Scratch copy = context.workspace().TakeArray<float>(rows * width);
  constexpr int64_t kRows = 64;  // of a task
  context.pool().ParallelFor(
      (rows + kRows - 1) / kRows, [&](int64_t task, int) {
        const int64_t end = std::min(rows, (task + 1) * kRows);
        for (int64_t r = task * kRows; r < end; ++r) {
          std::copy_n(x.As<float>() + r * x.stride[0], width,
                      copy.As<float>() + r * width);
        }
      });
  return copy;
}

void CopyRows(const ConstTensorView& x, const TensorView& out) {
  for (int64_t b = 0; b < x.shape[0]; ++b) {
    for (int64_t m = 0; m < x.shape[1]; ++m) {
      const float* from = x.As<float>() + b * x.stride[0] + m * x.stride[1];
      std::copy_n(from, x.shape[2],
                  out.As<float>() + b * out.stride[0] + m * out.stride[1]);
    }
  }
}

}  // namespace headwise
