// One head of a MultiHeadAttention: its metric, distribution, content and
// output, from its own slices of the weights alone.
// Door: include/headwise/multi_head_attention.h.
#include <fmt/core.h>

#include <vector>

#include "headwise/error.h"
#include "headwise/multi_head_attention.h"
#include "headwise/nn/projection.h"
#include "headwise/observation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// Columns of a matrix, or entries of a bias, that belong to a head; null where
// there is none.
ConstTensorView PartOf(const Tensor& tensor, int64_t head, int64_t dim) {
  return Columns(tensor.view(), head * dim, (head + 1) * dim);
}

// Entry `head` of axis 2, kept as an axis of size 1.
ConstTensorView HeadSlice(const ConstTensorView& view, int64_t head) {
  return Slice(view, 2, head, head + 1);
}

// A call of the operator for one head, and the memory it points to.
struct OneHead {
  Tensor q, k, v;  // [B, M or N, 1, D]
  Tensor out;      // [B, M, 1, D]
  Tensor lse;      // [B, 1, M]
  AttentionProblem problem;
  AttentionArgs args;
};

[[noreturn]] void Refuse(const char* expected, const ConstTensorView& found) {
  throw Error(ErrorCode::kInvalidArgument,
              {.where = "MultiHeadAttention",
               .expected = expected,
               .found = found ? ToString(found) : "nothing",
               .hint = "f32, last stride 1"});
}

void CheckHead(const MultiHeadAttentionConfig& config, int64_t head) {
  if (head >= 0 && head < config.heads) return;
  throw Error(ErrorCode::kInvalidArgument,
              {.where = "MultiHeadAttention",
               .expected = fmt::format("a head from 0 to {}", config.heads - 1),
               .found = fmt::format("{}", head),
               .hint = ""});
}

void CheckViews(const MultiHeadAttentionConfig& config,
                const ConstTensorView& x, const ConstTensorView& source) {
  auto fits = [](const ConstTensorView& view, int64_t width) {
    return view && view.rank == 3 && view.type == DType::kF32 &&
           view.shape[2] == width && view.stride[2] == 1;
  };
  if (!fits(x, config.d_model)) Refuse("x as [batch, position, d_model]", x);
  if (!fits(source, config.source_dim) || source.shape[0] != x.shape[0]) {
    Refuse("source as [batch, position, source_dim]", source);
  }
}

void Attend(Context& context, const MultiHeadAttention& module, int64_t head,
            const MultiHeadAttentionInput& input, OneHead& one) {
  const MultiHeadAttentionConfig& config = module.config();
  const MultiHeadAttentionParameters& p = module.parameters();
  const ConstTensorView source = input.source ? input.source : input.x;
  CheckHead(config, head);
  CheckViews(config, input.x, source);
  const int64_t dim = config.head_dim;
  const int64_t group = head / (config.heads / config.kv_heads);
  const int64_t batch = input.x.shape[0], queries = input.x.shape[1];
  const int64_t keys = source.shape[1];

  auto project = [&](const ConstTensorView& from, const Tensor& weight,
                     const Tensor& bias, int64_t slice) {
    Tensor to(DType::kF32, {batch, from.shape[1], 1, dim});
    Project(context, from, PartOf(weight, slice, dim), PartOf(bias, slice, dim),
            Reshaped(to.view(), {batch, from.shape[1], dim}));
    return to;
  };
  one.q = project(input.x, p.w_q, p.b_q, head);
  one.k = project(source, p.w_k, p.b_k, group);
  one.v = project(source, p.w_v, p.b_v, group);
  one.out = Tensor(DType::kF32, {batch, queries, 1, dim});
  one.lse = Tensor(DType::kF32, {batch, 1, queries});

  one.problem.batch = batch;
  one.problem.query_len = queries;
  one.problem.key_len = keys;
  one.problem.head_dim = dim;
  one.problem.device = context.device();
  one.problem.mask = input.mask;
  one.args.q = one.q.view();
  one.args.k = one.k.view();
  one.args.v = one.v.view();
  one.args.out = one.out.view();
  one.args.lse = one.lse.view();
  one.args.query_lengths = input.query_lengths;
  one.args.key_lengths = input.key_lengths;
  one.args.gates = HeadSlice(input.gates, head);
  one.args.replacement = HeadSlice(input.replacement, head);
  AttentionForward(context, one.problem, one.args);
}

}  // namespace

Tensor MultiHeadAttention::Metric(Context& context, int64_t head) const {
  CheckHead(config_, head);
  const int64_t dim = config_.head_dim;
  const int64_t group = head / (config_.heads / config_.kv_heads);
  Tensor metric(DType::kF32, {config_.d_model, config_.source_dim});
  MatmulArgs args;
  args.a = PartOf(parameters_.w_q, head, dim);
  args.b = PartOf(parameters_.w_k, group, dim);
  args.c = metric.view();
  MatmulProblem problem;
  problem.m = config_.d_model;
  problem.n = config_.source_dim;
  problem.k = dim;
  problem.b = Operand::kTransposed;
  Matmul(context, problem, args);
  return metric;
}

Tensor MultiHeadAttention::Weights(Context& context, int64_t head,
                                   const MultiHeadAttentionInput& input) const {
  OneHead one;
  Attend(context, *this, head, input, one);
  const int64_t batch = one.problem.batch, queries = one.problem.query_len;
  const int64_t keys = one.problem.key_len;
  std::vector<RowRef> rows;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t m = 0; m < queries; ++m) rows.push_back({b, m});
  }
  Tensor weights(DType::kF32, {batch, queries, keys});
  AttentionRows(context, one.problem, one.args, rows,
                Reshaped(weights.view(), {batch * queries, 1, keys}));
  return weights;
}

HeadContent MultiHeadAttention::Content(Context& context, int64_t head) const {
  CheckHead(config_, head);
  const int64_t dim = config_.head_dim;
  const int64_t group = head / (config_.heads / config_.kv_heads);
  const ConstTensorView value = PartOf(parameters_.w_v, group, dim);
  HeadContent content;
  content.value = ToHost(context, value);
  if (!config_.output_projection) {
    content.output = ToHost(context, value);
    return content;
  }
  content.output = Tensor(DType::kF32, {config_.source_dim, config_.d_model});
  MatmulArgs args;
  args.a = value;
  args.b = Rows(parameters_.w_o.view(), head * dim, (head + 1) * dim);
  args.c = content.output.view();
  MatmulProblem problem;
  problem.m = config_.source_dim;
  problem.n = config_.d_model;
  problem.k = dim;
  Matmul(context, problem, args);
  return content;
}

Tensor MultiHeadAttention::Output(Context& context, int64_t head,
                                  const MultiHeadAttentionInput& input) const {
  OneHead one;
  Attend(context, *this, head, input, one);
  const int64_t batch = one.problem.batch, queries = one.problem.query_len;
  const int64_t dim = config_.head_dim;
  const ConstTensorView result =
      Reshaped(one.out.view(), {batch, queries, dim});
  Tensor out(DType::kF32, {batch, queries,
                           config_.output_projection ? config_.d_model : dim});
  if (config_.output_projection) {
    Project(context, result,
            Rows(parameters_.w_o.view(), head * dim, (head + 1) * dim), {},
            out.view());
  } else {
    Copy(context, result, out.view());
  }
  return out;
}

}  // namespace headwise
