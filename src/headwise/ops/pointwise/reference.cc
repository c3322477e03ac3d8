// The reference: the formulas of pointwise.h in double, any type, host memory.
// Door: implementation.h.
#include <cmath>
#include <string>

#include "headwise/ops/pointwise/implementation.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

Reason WhyNot(const PointwiseCall& call) {
  return call.a.device.is_cpu() ? "" : "reads host memory only";
}

double Element(const ConstTensorView& view, int64_t n) {
  return Read(Moved(view, PlaceOf(view, n)), 0);
}

double Result(const PointwiseCall& call, int64_t n) {
  const double a = Element(call.a, n);
  switch (call.kind) {
    case PointwiseKind::kAdd:
      return a + Element(call.b, n);
    case PointwiseKind::kAddScaled:
      return a + call.factor * Element(call.b, n);
    case PointwiseKind::kMultiply:
      return a * Element(call.b, n);
    default:
      return call.factor * a;
  }
}

void AddAt(const TensorView& to, int64_t i, double value) {
  Write(to, Read(to, i) + value, i);
}

void Run(Context&, const PointwiseCall& call) {
  const int64_t count = call.a.size();
  if (!Reduces(call)) {
    for (int64_t n = 0; n < count; ++n) {
      Write(Moved(call.y, PlaceOf(call.y, n)), Result(call, n), 0);
    }
    return;
  }
  if (call.kind == PointwiseKind::kColumnSums) {
    const int64_t columns = call.y.shape[0];
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (int64_t n = c; n < count; n += columns) sum += Element(call.a, n);
      AddAt(call.y, c, sum);
    }
    return;
  }
  double squares = 0;
  bool beyond = false;
  for (int64_t n = 0; n < count; ++n) {
    const double value = Element(call.a, n);
    squares += value * value;
    beyond = beyond || !(std::abs(value) <= call.factor);
  }
  if (call.kind == PointwiseKind::kSumOfSquares) AddAt(call.y, 0, squares);
  if (call.kind == PointwiseKind::kBeyond && beyond) Write(call.y, 1, 0);
}

}  // namespace

const Implementation<PointwiseCall> kPointwiseReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
