// Slices of projections. Door: head_weights.h.
#include "headwise/nn/head_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/nn/finite.h"
#include "headwise/nn/head_slices.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// A layer of one matrix as f32 [ins, outs], whatever its layout.
Tensor MatrixOf(Context& context, const Linear& own) {
  Tensor values = ToF32(context, own.weight());
  RequireFinite(context, own.weight(), values.view());
  return own.layout() == WeightLayout::kOutIn
             ? ToHost(context, Transposed(values.view(), 0, 1))
             : std::move(values);
}

Tensor MatrixOf(Context& context, const AttentionLayer& layer,
                HeadMatrix matrix, int64_t index) {
  return MatrixOf(context, LinearOf(layer, matrix, index));
}

// Each row of w [d, D] less its mean.
void TakeMeansOff(Context& context, Tensor& w) {
  const auto dim = static_cast<size_t>(w.shape(1));
  auto values = ToVector<float>(context, w.view());
  for (size_t at = 0; at < values.size(); at += dim) {
    const auto row = std::span(values).subspan(at, dim);
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    const auto mean = static_cast<float>(sum / static_cast<double>(dim));
    for (float& one : row) one -= mean;
  }
  Copy(context, Reshaped(ViewOf(values), {w.shape(0), w.shape(1)}), w.view());
}

// w [d, D] · diag(gain of a head's norm), which may take the mean off first.
void FoldGain(Context& context, const HeadNorms& norms, int64_t head,
              Tensor& w) {
  if (!norms) return;
  if (norms.norms()[0].kind() == NormKind::kLayer) TakeMeansOff(context, w);
  const Tensor gain = norms.Gain(context, head, w.shape(1));
  Multiply(context, w.view(), Broadcast(gain.view(), {w.shape(0), w.shape(1)}),
           w.view());
}

// x → norm(x·down)·up [d, outs], but for the norm's division.
Tensor ThroughLatent(Context& context, const Linear& down, const Norm& norm,
                     const Tensor& up) {
  if (!down) return ToHost(context, up.view());
  Tensor latent = MatrixOf(context, down);
  FoldGain(context, norm, 0, latent);
  return MatrixProduct(context, latent, up);
}

// a [d, n] beside b [d, m].
Tensor Beside(Context& context, const Tensor& a, const Tensor& b) {
  Tensor both(DType::kF32, {a.shape(0), a.shape(1) + b.shape(1)});
  Copy(context, a.view(), Columns(both.view(), 0, a.shape(1)));
  Copy(context, b.view(), Columns(both.view(), a.shape(1), both.shape(1)));
  return both;
}

// √Σ a_ij b_ij of two symmetric matrices: the trace of their product.
double RootTrace(Context& context, const Tensor& a, const Tensor& b) {
  const auto left = ToVector<double>(context, a.view());
  const auto right = ToVector<double>(context, b.view());
  const double sum =
      std::inner_product(left.begin(), left.end(), right.begin(), 0.0);
  return std::sqrt(std::max(0.0, sum));
}

}  // namespace

HeadWeights WeightsOfHead(Context& context, const AttentionLayer& layer,
                          int64_t head) {
  const AttentionLayerConfig& config = layer.config();
  if (head < 0 || head >= config.heads) {
    throw Error(ErrorCode::kInvalidArgument,
                {layer.site().name,
                 "a head from 0 to " + std::to_string(config.heads - 1),
                 std::to_string(head), ""});
  }
  const int64_t group = head / (config.heads / config.kv_heads);
  const AttentionWeights& w = layer.weights();
  HeadWeights weights;
  weights.q = MatrixOf(context, layer, HeadMatrix::kQuery, head);
  weights.k = MatrixOf(context, layer, HeadMatrix::kKey, group);
  weights.v = MatrixOf(context, layer, HeadMatrix::kValue, group);
  if (w.output) {
    weights.o = MatrixOf(context, layer, HeadMatrix::kOutput, head);
  }
  if (w.latent) {
    const LatentWeights& of = w.latent.weights();
    const auto through = [&](const Tensor& up) {
      return ThroughLatent(context, of.down, of.norm, up);
    };
    weights.q = ThroughLatent(context, of.query_down, of.query_norm, weights.q);
    weights.k =
        Beside(context, through(weights.k), MatrixOf(context, of.shared_keys));
    weights.v = through(weights.v);
  }
  FoldGain(context, w.query_norm, head, weights.q);
  FoldGain(context, w.key_norm, group, weights.k);
  return weights;
}

bool NormsQueries(const AttentionLayer& layer) {
  return layer.weights().query_norm || layer.weights().latent;
}

Tensor QkProduct(Context& context, const HeadWeights& weights) {
  return MatrixProduct(context, weights.q, weights.k, Operand::kPlain,
                       Operand::kTransposed);
}

Tensor OvProduct(Context& context, const HeadWeights& weights) {
  return MatrixProduct(context, weights.v, weights.o);
}

double QkNorm(Context& context, const HeadWeights& w) {
  return RootTrace(context,
                   MatrixProduct(context, w.q, w.q, Operand::kTransposed),
                   MatrixProduct(context, w.k, w.k, Operand::kTransposed));
}

double OvNorm(Context& context, const HeadWeights& w) {
  return RootTrace(
      context, MatrixProduct(context, w.v, w.v, Operand::kTransposed),
      MatrixProduct(context, w.o, w.o, Operand::kPlain, Operand::kTransposed));
}

}  // namespace headwise
