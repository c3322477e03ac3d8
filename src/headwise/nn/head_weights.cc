// Slices of projections. Door: head_weights.h.
#include "headwise/nn/head_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/nn/finite.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

struct Range {
  int64_t begin, end;
};

// Some inputs and outputs of a weight as f32 [ins, outs], whatever its layout.
Tensor Part(Context& context, Parameter weight, WeightLayout layout, Range ins,
            Range outs) {
  const bool out_in = layout == WeightLayout::kOutIn;
  const Range rows = out_in ? outs : ins, columns = out_in ? ins : outs;
  weight.value = Columns(Rows(weight.value, rows.begin, rows.end),
                         columns.begin, columns.end);
  Tensor part = ToF32(context, weight);
  RequireFinite(context, weight, part.view());
  return out_in ? ToHost(context, Transposed(part.view(), 0, 1))
                : std::move(part);
}

// w [d, D] · diag(gain of a norm over each head's D).
void FoldGain(Context& context, const Norm& norm, Tensor& w) {
  if (!norm) return;
  const Tensor gain = ToF32(context, norm.weight_parameter());
  RequireFinite(context, norm.weight_parameter(), gain.view());
  Multiply(context, w.view(), Broadcast(gain.view(), {w.shape(0), w.shape(1)}),
           w.view());
}

// Outputs [begin, begin + count) of a linear layer as [in, count]; its parts'
// outputs lie side by side.
Tensor Outputs(Context& context, const Linear& linear, int64_t begin,
               int64_t count) {
  const int axis = linear.layout() == WeightLayout::kOutIn ? 0 : 1;
  int64_t first = 0;
  for (const Linear::Part& part : linear.parts()) {
    const int64_t outs = part.weight.value.shape[axis];
    if (begin >= first && begin + count <= first + outs) {
      const int64_t out = begin - first;
      return Part(context, part.weight, linear.layout(), {0, linear.in()},
                  {out, out + count});
    }
    first += outs;
  }
  throw Error(ErrorCode::kInternal,
              {"head weights", "outputs of one part",
               std::to_string(begin) + " + " + std::to_string(count), ""});
}

// Inputs [begin, begin + count) of a linear layer as [count, out].
Tensor Inputs(Context& context, const Linear& linear, int64_t begin,
              int64_t count) {
  return Part(context, linear.parts()[0].weight, linear.layout(),
              {begin, begin + count}, {0, linear.out()});
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
  const int64_t dim = config.head_dim, value = layer.value_dim();
  const int64_t group = head / (config.heads / config.kv_heads);
  const AttentionWeights& w = layer.weights();
  const Linear& queries = layer.cross() ? w.q : w.qkv;
  const Linear& keys = layer.cross() ? w.kv : w.qkv;
  const int64_t first_key = layer.cross() ? 0 : config.heads * dim;
  const int64_t first_value = first_key + config.kv_heads * dim;
  HeadWeights weights;
  weights.q = Outputs(context, queries, head * dim, dim);
  weights.k = Outputs(context, keys, first_key + group * dim, dim);
  weights.v = Outputs(context, keys, first_value + group * value, value);
  if (w.output) weights.o = Inputs(context, w.output, head * value, value);
  FoldGain(context, w.query_norm, weights.q);
  FoldGain(context, w.key_norm, weights.k);
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
