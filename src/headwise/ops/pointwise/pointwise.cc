// Pointwise's entry points and its list of implementations. Door: pointwise.h.
#include "headwise/ops/pointwise/pointwise.h"

#include <cmath>
#include <string>
#include <vector>

#include "headwise/error.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/implementation.h"

namespace headwise {
namespace {

// As CheckView, with any strides.
void CheckLike(const char* name, const ConstTensorView& view,
               const ConstTensorView& y) {
  if ((view || y.size() == 0) && view.type == y.type && IsPlain(y.type) &&
      view.device == y.device && SameShape(view, y)) {
    return;
  }
  ConstTensorView wanted = y;
  throw Error(ErrorCode::kInvalidArgument,
              {"pointwise", std::string(name) + " " + ToString(wanted),
               view ? ToString(view) : "none", ""});
}

void RunLike(Context& context, const PointwiseCall& call) {
  CheckLike("y", call.y, call.y);
  CheckLike("a", call.a, call.y);
  const bool two = call.kind != PointwiseKind::kScale;
  if (two) CheckLike("b", call.b, call.y);
  if (call.y.size() == 0) return;
  Dispatch(context, PointwiseImplementations(), call);
}

void RunReduction(Context& context, const PointwiseCall& call, DType type,
                  const Shape& shape) {
  if (call.a.rank == 0 || (!call.a && call.a.size() > 0) ||
      !IsPlain(call.a.type)) {
    throw Error(ErrorCode::kInvalidArgument,
                {"pointwise", "a plain x with an axis",
                 call.a ? ToString(call.a) : "none", ""});
  }
  CheckView("pointwise", "the result", call.y, type, shape, call.a.device);
  if (call.a.size() == 0) return;
  Dispatch(context, PointwiseImplementations(), call);
}

// What run(view) adds to one number, which is 0 at first, when it is there.
// The host's needs no memory.
template <typename T, typename Run>
T Wait(Context& context, const ConstTensorView& x, const Run& run) {
  T result = 0;
  const TensorView host(&result, TypeOf<T>(), {1});
  if (x.device.is_cpu()) {
    run(host);
    return result;
  }
  const Temp there(context, TypeOf<T>(), {1});
  Fill(context, 0, there.view());
  run(there.view());
  Copy(context, there.view(), host);
  context.Synchronize();
  return result;
}

}  // namespace

ImplementationList<PointwiseCall> PointwiseImplementations() {
  static const Implementation<PointwiseCall> kList[] = {
      kPointwiseCuda, kPointwiseCudaReduce, kPointwiseCpuF32,
      kPointwiseCpuReduce, kPointwiseReference};
  return {"pointwise", kList};
}

void Add(Context& context, const ConstTensorView& a, const ConstTensorView& b,
         const TensorView& y) {
  RunLike(context, {.kind = PointwiseKind::kAdd, .a = a, .b = b, .y = y});
}

void AddScaled(Context& context, const ConstTensorView& a, float factor,
               const ConstTensorView& b, const TensorView& y) {
  RunLike(context, {.kind = PointwiseKind::kAddScaled,
                    .a = a,
                    .b = b,
                    .y = y,
                    .factor = factor});
}

void Multiply(Context& context, const ConstTensorView& a,
              const ConstTensorView& b, const TensorView& y) {
  RunLike(context, {.kind = PointwiseKind::kMultiply, .a = a, .b = b, .y = y});
}

void Scale(Context& context, float factor, const ConstTensorView& a,
           const TensorView& y) {
  RunLike(context,
          {.kind = PointwiseKind::kScale, .a = a, .y = y, .factor = factor});
}

void AddColumnSums(Context& context, const ConstTensorView& x,
                   const TensorView& sums) {
  const int64_t columns = x.rank > 0 ? x.shape[x.rank - 1] : 0;
  RunReduction(context, {.kind = PointwiseKind::kColumnSums, .a = x, .y = sums},
               DType::kF32, {columns});
}

void AddSumOfSquares(Context& context, const ConstTensorView& x,
                     const TensorView& sum) {
  RunReduction(context,
               {.kind = PointwiseKind::kSumOfSquares, .a = x, .y = sum},
               DType::kF64, {1});
}

void MarkBeyond(Context& context, const ConstTensorView& x, float limit,
                const TensorView& mark) {
  RunReduction(
      context,
      {.kind = PointwiseKind::kBeyond, .a = x, .y = mark, .factor = limit},
      DType::kI32, {1});
}

double SumOfSquares(Context& context, const ConstTensorView& x) {
  return Wait<double>(context, x, [&](const TensorView& sum) {
    AddSumOfSquares(context, x, sum);
  });
}

bool AllWithin(Context& context, const ConstTensorView& x, float limit) {
  return Wait<int32_t>(context, x, [&](const TensorView& mark) {
           MarkBeyond(context, x, limit, mark);
         }) == 0;
}

int64_t FirstBeyond(Context& context, const ConstTensorView& x, float limit) {
  if (AllWithin(context, x, limit)) return -1;
  const std::vector<double> values = ToVector<double>(context, x);
  int64_t first = 0;
  while (std::abs(values[first]) <= limit) ++first;
  return first;
}

}  // namespace headwise
