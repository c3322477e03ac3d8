// Door: attention_data.h.
#include "bench/attention_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/tensor/half.h"

namespace headwise::bench {
namespace {

constexpr int kSampledRows = 24;

double At(const Tensor& tensor, int64_t index) {
  switch (tensor.type()) {
    case DType::kBF16:
      return FromBf16(tensor.As<uint16_t>()[index]);
    case DType::kF16:
      return FromF16(tensor.As<uint16_t>()[index]);
    default:
      return tensor.As<float>()[index];
  }
}

bool Sees(const AttentionMask& mask, int64_t query, int64_t key) {
  const int64_t position = query + mask.query_offset;
  if (mask.after != kUnlimited && key > position + mask.after) return false;
  if (mask.before == kUnlimited || key >= position - mask.before) return true;
  return key < mask.sinks;
}

// One row of the truth, [D].
std::vector<double> DenseRow(const AttentionData& data, int64_t b, int64_t i,
                             int64_t h) {
  const AttentionProblem& p = data.problem;
  const int64_t d = p.head_dim, g = h / (p.heads / p.kv_heads);
  const double scale = p.scale != 0 ? p.scale : 1 / std::sqrt(1.0 * d);
  const int64_t query = ((b * p.query_len + i) * p.heads + h) * d;
  std::vector<double> z(p.key_len, -INFINITY), row(d, 0.0);
  for (int64_t j = 0; j < p.key_len; ++j) {
    if (!Sees(p.mask, i, j)) continue;
    const int64_t key = ((b * p.key_len + j) * p.kv_heads + g) * d;
    double dot = 0;
    for (int64_t c = 0; c < d; ++c) {
      dot += At(data.q, query + c) * At(data.k, key + c);
    }
    z[j] = dot * scale;
  }
  const double top = *std::max_element(z.begin(), z.end());
  if (top == -INFINITY) return row;
  double sum = 0;
  for (int64_t j = 0; j < p.key_len; ++j) {
    const double weight = std::exp(z[j] - top);
    sum += weight;
    if (weight == 0) continue;
    const int64_t value = ((b * p.key_len + j) * p.kv_heads + g) * d;
    for (int64_t c = 0; c < d; ++c) row[c] += weight * At(data.v, value + c);
  }
  for (double& x : row) x /= sum;
  return row;
}

}  // namespace

void FillRandom(Tensor& tensor, uint64_t stream) {
  constexpr double kHalfWidth = 1.7320508;  // uniform, variance 1
  std::array<uint32_t, 4> words{};          // one block serves four neighbours
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (i % 4 == 0) words = Philox(1, stream, static_cast<uint64_t>(i));
    const float value =
        static_cast<float>((words[i % 4] * 0x1.0p-31 - 1) * kHalfWidth);
    switch (tensor.type()) {
      case DType::kBF16:
        tensor.As<uint16_t>()[i] = ToBf16(value);
        break;
      case DType::kF16:
        tensor.As<uint16_t>()[i] = ToF16(value);
        break;
      default:
        tensor.As<float>()[i] = value;
    }
  }
}

AttentionData MakeAttentionData(const AttentionProblem& problem) {
  const AttentionProblem& p = problem;
  AttentionData data{
      p, Tensor(p.type, {p.batch, p.query_len, p.heads, p.head_dim}),
      Tensor(p.type, {p.batch, p.key_len, p.kv_heads, p.head_dim}),
      Tensor(p.type, {p.batch, p.key_len, p.kv_heads, p.head_dim})};
  FillRandom(data.q, 1);
  FillRandom(data.k, 2);
  FillRandom(data.v, 3);
  return data;
}

double AttentionError(const AttentionData& data, const Tensor& out) {
  const AttentionProblem& p = data.problem;
  double worst = 0;
  Rng rng(2);
  for (int sample = 0; sample < kSampledRows; ++sample) {
    const int64_t b = rng.Between(0, p.batch - 1);
    const int64_t h = rng.Between(0, p.heads - 1);
    // The last row sees most, the first least under a causal mask.
    const int64_t i = sample == 0   ? 0
                      : sample == 1 ? p.query_len - 1
                                    : rng.Between(0, p.query_len - 1);
    const std::vector<double> truth = DenseRow(data, b, i, h);
    const int64_t at = ((b * p.query_len + i) * p.heads + h) * p.head_dim;
    for (int64_t c = 0; c < p.head_dim; ++c) {
      const double error = std::abs(At(out, at + c) - truth[c]);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
  }
  return worst;
}

double AttentionTolerance(DType type) {
  return type == DType::kF32 ? 1e-4 : 2e-2;
}

}  // namespace headwise::bench
