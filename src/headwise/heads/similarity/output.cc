// CKA through rows of the kernels, a few at a time. Door: output.h.
#include "headwise/heads/similarity/output.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "headwise/ops/matmul/matmul.h"

namespace headwise {
namespace {

// Kernel rows of all heads that are held at one time.
constexpr int64_t kMostOutputBytes = int64_t{64} << 20;

// Columns without their mean, the whole scaled to ‖Z‖ = 1 so that f32 neither
// overflows nor vanishes; a constant output becomes zero.
Tensor Centred(const Tensor& z) {
  const int64_t rows = z.shape(0), columns = z.shape(1);
  Tensor centred(DType::kF32, {rows, columns});
  double total = 0, raw = 0;
  for (int64_t c = 0; c < columns; ++c) {
    double mean = 0;
    for (int64_t r = 0; r < rows; ++r) mean += z.As<float>()[r * columns + c];
    mean /= static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      const double value = z.As<float>()[r * columns + c];
      const double centre = value - mean;
      raw += value * value;
      total += centre * centre;
      centred.As<float>()[r * columns + c] = static_cast<float>(centre);
    }
  }
  // What is left of a constant is rounding.
  const bool constant = total <= 1e-12 * raw;
  const double scale = constant ? 0 : 1 / std::sqrt(total);
  for (int64_t i = 0; i < rows * columns; ++i) {
    centred.As<float>()[i] *= static_cast<float>(scale);
  }
  return centred;
}

}  // namespace

Matrix LinearCka(Context& context, std::span<const Tensor> outputs) {
  const auto heads = static_cast<int64_t>(outputs.size());
  Matrix gram(heads, heads);
  if (heads == 0) return gram;
  const int64_t samples = outputs[0].shape(0);
  std::vector<Tensor> centred;
  for (const Tensor& z : outputs) centred.push_back(Centred(z));
  const int64_t chunk = std::clamp<int64_t>(
      kMostOutputBytes /
          (heads * samples * static_cast<int64_t>(sizeof(float))),
      1, samples);
  Tensor kernel(DType::kF32, {heads, chunk * samples});
  Tensor product(DType::kF32, {heads, heads});
  for (int64_t first = 0; first < samples; first += chunk) {
    const int64_t rows = std::min(chunk, samples - first);
    const int64_t length = rows * samples;
    for (int64_t h = 0; h < heads; ++h) {
      const Tensor& z = centred[h];
      const int64_t dim = z.shape(1);
      MatmulProblem problem{.m = rows, .n = samples, .k = dim};
      problem.b = Operand::kTransposed;
      MatmulArgs args;
      args.a = View(z.As<float>() + first * dim, {rows, dim});
      args.b = z.view();
      args.c = View(kernel.As<float>() + h * length, {rows, samples});
      Matmul(context, problem, args);
    }
    MatmulProblem problem{.m = heads, .n = heads, .k = length};
    problem.b = Operand::kTransposed;
    MatmulArgs args;
    args.a = args.b = View(std::as_const(kernel).As<float>(), {heads, length});
    args.c = product.view();
    Matmul(context, problem, args);
    for (int64_t i = 0; i < heads * heads; ++i) {
      gram.values[i] += product.As<float>()[i];
    }
  }
  Matrix cka(heads, heads);
  for (int64_t a = 0; a < heads; ++a) {
    for (int64_t b = 0; b < heads; ++b) {
      const double norms = std::sqrt(gram(a, a) * gram(b, b));
      cka(a, b) = norms > 0 ? std::min(1.0, gram(a, b) / norms)
                            : std::numeric_limits<double>::quiet_NaN();
    }
  }
  return cka;
}

}  // namespace headwise
