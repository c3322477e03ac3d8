// The reference: the formulas of norm.h in double, any type, host memory.
// Door: implementation.h.
#include <cmath>
#include <string>
#include <vector>

#include "headwise/ops/norm/implementation.h"
#include "headwise/tensor/element.h"

namespace headwise {
namespace {

Reason WhyNot(const NormCall& call) {
  return call.args.x.device.is_cpu() ? "" : "reads host memory only";
}

// One segment of a view such as x.
template <typename Void>
BasicView<Void> Segment(BasicView<Void> view, int64_t row) {
  const int last = view.rank - 1;
  const int64_t at = SegmentBegin(view, row) * ElementSize(view.type);
  using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
  return {static_cast<Byte*>(view.data) + at, view.type, {view.shape[last]}};
}

double WeightOf(const NormArgs& args, int64_t i) {
  return args.weight ? Read(args.weight, i) : 1;
}

void Forward(const NormCall& call, int64_t row) {
  const NormArgs& a = call.args;
  const int64_t width = SizesOf(call).width;
  const double n = static_cast<double>(width);
  const ConstTensorView x = Segment(a.x, row);
  const bool layer = call.problem.kind == NormKind::kLayer;
  double mean = 0, squares = 0;
  for (int64_t i = 0; layer && i < width; ++i) mean += Read(x, i) / n;
  for (int64_t i = 0; i < width; ++i) squares += std::pow(Read(x, i) - mean, 2);
  const double scale = 1 / std::sqrt(squares / n + call.problem.epsilon);
  std::vector<double> y(width);  // y may be x
  for (int64_t i = 0; i < width; ++i) {
    y[i] = (Read(x, i) - mean) * scale * WeightOf(a, i) +
           (a.bias ? Read(a.bias, i) : 0);
  }
  for (int64_t i = 0; a.kept && i < width; ++i) {
    Write(Segment(a.kept, row), Read(x, i), i);
  }
  for (int64_t i = 0; i < width; ++i) Write(Segment(a.y, row), y[i], i);
  if (layer) Write(a.mean, mean, row);
  Write(a.scale, scale, row);
}

// dx = r · (dŷ − mean(dŷ) − x̂ · mean(dŷ · x̂)), dŷ = dy · w; the mean(dŷ)
// term belongs to kLayer only.
void Backward(const NormCall& call, int64_t row, std::vector<double>& dweight,
              std::vector<double>& dbias) {
  const NormArgs& a = call.args;
  const int64_t width = SizesOf(call).width;
  const double n = static_cast<double>(width);
  const ConstTensorView x = Segment(a.x, row);
  const ConstTensorView dy = Segment(call.grads->dy, row);
  const bool layer = call.problem.kind == NormKind::kLayer;
  const double mean = layer ? Read(a.mean, row) : 0;
  const double scale = Read(a.scale, row);
  std::vector<double> unit(width), inner(width);
  double mean_inner = 0, mean_dot = 0;
  for (int64_t i = 0; i < width; ++i) {
    unit[i] = (Read(x, i) - mean) * scale;
    inner[i] = Read(dy, i) * WeightOf(a, i);
    if (layer) mean_inner += inner[i] / n;
    mean_dot += inner[i] * unit[i] / n;
    dweight[i] += Read(dy, i) * unit[i];
    dbias[i] += Read(dy, i);
  }
  const ConstTensorView& added = call.grads->added;
  for (int64_t i = 0; i < width; ++i) {
    const double around = added ? Read(Segment(added, row), i) : 0;
    Write(Segment(call.grads->dx, row),
          around + scale * (inner[i] - mean_inner - unit[i] * mean_dot), i);
  }
}

void Add(const TensorView& to, const std::vector<double>& values) {
  for (size_t i = 0; to && i < values.size(); ++i) {
    Write(to, Read(to, i) + values[i], i);
  }
}

void Run(Context&, const NormCall& call) {
  const NormSizes sizes = SizesOf(call);
  std::vector<double> dweight(sizes.width), dbias(sizes.width);
  for (int64_t row = 0; row < sizes.rows * sizes.segments; ++row) {
    if (call.grads == nullptr) {
      Forward(call, row);
    } else {
      Backward(call, row, dweight, dbias);
    }
  }
  if (call.grads == nullptr) return;
  Add(call.grads->dweight, dweight);
  Add(call.grads->dbias, dbias);
}

}  // namespace

const Implementation<NormCall> kNormReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
