// For tests of operators: random tensors, and comparison as double whatever the
// type.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/check_view.h"
#include "headwise/tensor.h"
#include "headwise/tensor/element.h"

namespace headwise {

// Of variance 1, and at a fraction of what Rng::Normal costs: half of a test's
// time went into its input.
inline double UnitValue(Rng& rng) {
  constexpr double kRoot3 = 1.7320508075688772;
  return kRoot3 * (2 * rng.Uniform() - 1);
}

// All elements, in row-major order; a view of any strides.
inline std::vector<double> ToVector(const ConstTensorView& view) {
  std::vector<double> values(view.size());
  const ConstTensorView flat(view.data, view.type, {1});
  for (int64_t n = 0; n < view.size(); ++n) {
    int64_t at = 0, rest = n;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      at += rest % view.shape[axis] * view.stride[axis];
      rest /= view.shape[axis];
    }
    values[n] = Read(flat, at);
  }
  return values;
}

inline Tensor RandomTensor(DType type, const Shape& shape, Rng& rng,
                           double scale = 1) {
  Tensor tensor(type, shape);
  const TensorView flat(tensor.view().data, type, {tensor.size()});
  for (int64_t i = 0; i < tensor.size(); ++i) {
    Write(flat, scale * UnitValue(rng), i);
  }
  return tensor;
}

inline Tensor CopyOf(const Tensor& from) {
  Tensor copy(from.type(), ShapeOf(from.view()));
  if (from.size() > 0) {
    std::memcpy(copy.view().data, from.view().data, from.bytes());
  }
  return copy;
}

// What a result of this type may differ from a result in double, relative to
// the larger of 1 and that.
inline double Tolerance(DType type) {
  return type == DType::kBF16 ? 1e-2 : type == DType::kF16 ? 2e-3 : 2e-5;
}

inline void ExpectNear(const std::vector<Tensor>& found,
                       const std::vector<Tensor>& truth, double tolerance) {
  ASSERT_EQ(found.size(), truth.size());
  for (size_t t = 0; t < found.size(); ++t) {
    if (truth[t].size() == 0) continue;
    const auto a = ToVector(found[t].view()), b = ToVector(truth[t].view());
    ASSERT_EQ(a.size(), b.size()) << "result " << t;
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i])))
          << "result " << t << " element " << i;
    }
  }
}

// What `run` throws, as text; "" for nothing.
template <typename Run>
std::string ErrorOf(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// (f(x + h) − f(x − h)) / 2h, x being any variable that f reads.
template <typename Function>
double Slope(double& x, const Function& f, double h = 1e-5) {
  const double middle = x;
  x = middle + h;
  const double up = f();
  x = middle - h;
  const double down = f();
  x = middle;
  return (up - down) / (2 * h);
}

}  // namespace headwise
