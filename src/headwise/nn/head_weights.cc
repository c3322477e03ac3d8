// Slices of projections. Door: head_weights.h.
#include "headwise/nn/head_weights.h"

#include <cmath>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/nn/finite.h"
#include "headwise/ops/matmul/matmul.h"

namespace headwise {
namespace {

struct Range {
  int64_t begin, end;
};

// Some inputs and outputs of a weight as f32, in its own layout: [outs, ins]
// or [ins, outs].
Tensor Part(Parameter weight, bool out_in, Range ins, Range outs) {
  const Range rows = out_in ? outs : ins, columns = out_in ? ins : outs;
  ConstTensorView& view = weight.value;
  view.data = static_cast<const std::byte*>(view.data) +
              (rows.begin * view.stride[0] + columns.begin) *
                  static_cast<int64_t>(SizeOf(view.type));
  view.shape[0] = rows.end - rows.begin;
  view.shape[1] = columns.end - columns.begin;
  Tensor part = ToF32(weight);
  RequireFinite(weight, part);
  return part;
}

// w [d, D] · diag(gain of a norm over each head's D).
void FoldGain(const Norm& norm, Tensor& w) {
  if (!norm) return;
  const Tensor gain = ToF32(norm.weight_parameter());
  RequireFinite(norm.weight_parameter(), gain);
  const int64_t rows = w.shape(0), columns = w.shape(1);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      w.As<float>()[r * columns + c] *= gain.As<float>()[c];
    }
  }
}

// Outputs [begin, begin + count) of a linear layer as [in, count]; its parts'
// outputs lie side by side.
Tensor Columns(const Linear& linear, int64_t begin, int64_t count) {
  Tensor slice(DType::kF32, {linear.in(), count});
  const bool out_in = linear.layout() == WeightLayout::kOutIn;
  int64_t first = 0;
  for (const Linear::Part& part : linear.parts()) {
    const ConstTensorView& view = part.weight.value;
    const int64_t outs = view.shape[out_in ? 0 : 1];
    if (begin < first || begin + count > first + outs) {
      first += outs;
      continue;
    }
    const int64_t out = begin - first;
    const Tensor values =
        Part(part.weight, out_in, {0, linear.in()}, {out, out + count});
    for (int64_t c = 0; c < count; ++c) {
      for (int64_t r = 0; r < linear.in(); ++r) {
        slice.As<float>()[r * count + c] =
            values.As<float>()[out_in ? c * linear.in() + r : r * count + c];
      }
    }
    return slice;
  }
  throw Error(ErrorCode::kInternal,
              {"head weights", "outputs of one part",
               std::to_string(begin) + " + " + std::to_string(count), ""});
}

// Inputs [begin, begin + count) of a linear layer as [count, out].
Tensor InputRows(const Linear& linear, int64_t begin, int64_t count) {
  const int64_t out = linear.out();
  const bool out_in = linear.layout() == WeightLayout::kOutIn;
  const Tensor values =
      Part(linear.parts()[0].weight, out_in, {begin, begin + count}, {0, out});
  Tensor slice(DType::kF32, {count, out});
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < out; ++c) {
      slice.As<float>()[r * out + c] =
          values.As<float>()[out_in ? c * count + r : r * out + c];
    }
  }
  return slice;
}

// √Σ a_ij b_ij of two symmetric matrices: the trace of their product.
double RootTrace(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a.As<float>()[i]) * b.As<float>()[i];
  }
  return std::sqrt(std::max(0.0, sum));
}

}  // namespace

HeadWeights WeightsOfHead(const AttentionLayer& layer, int64_t head) {
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
  weights.q = Columns(queries, head * dim, dim);
  weights.k = Columns(keys, first_key + group * dim, dim);
  weights.v = Columns(keys, first_value + group * value, value);
  weights.o = InputRows(w.output, head * value, value);
  FoldGain(w.query_norm, weights.q);
  FoldGain(w.key_norm, weights.k);
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
  return RootTrace(MatrixProduct(context, w.q, w.q, Operand::kTransposed),
                   MatrixProduct(context, w.k, w.k, Operand::kTransposed));
}

double OvNorm(Context& context, const HeadWeights& w) {
  return RootTrace(
      MatrixProduct(context, w.v, w.v, Operand::kTransposed),
      MatrixProduct(context, w.o, w.o, Operand::kPlain, Operand::kTransposed));
}

}  // namespace headwise
