// Slices of projections. Door: head_weights.h.
#include "headwise/nn/head_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>
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

// The matrix of one head or group as f32 [ins, outs], whatever its layout.
Tensor MatrixOf(Context& context, const AttentionLayer& layer,
                HeadMatrix matrix, int64_t index) {
  const Linear own = LinearOf(layer, matrix, index);
  Tensor values = ToF32(context, own.weight());
  RequireFinite(context, own.weight(), values.view());
  return own.layout() == WeightLayout::kOutIn
             ? ToHost(context, Transposed(values.view(), 0, 1))
             : std::move(values);
}

// w [d, D] · diag(gain of a head's norm).
void FoldGain(Context& context, const HeadNorms& norms, int64_t head,
              Tensor& w) {
  if (!norms) return;
  const Tensor gain = norms.Gain(context, head, w.shape(1));
  Multiply(context, w.view(), Broadcast(gain.view(), {w.shape(0), w.shape(1)}),
           w.view());
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
  FoldGain(context, w.query_norm, head, weights.q);
  FoldGain(context, w.key_norm, group, weights.k);
  return weights;
}

bool NormsQueries(const AttentionLayer& layer) {
  return static_cast<bool>(layer.weights().query_norm);
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
