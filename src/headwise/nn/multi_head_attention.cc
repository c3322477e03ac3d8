// Multi-head attention as a module: projections, the attention operator, the
// output projection, and the way back. One head at a time: head_view.cc.
// Door: include/headwise/multi_head_attention.h.
#include "headwise/multi_head_attention.h"

#include <fmt/core.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/nn/projection.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

constexpr char kWhere[] = "MultiHeadAttention";

[[noreturn]] void Refuse(std::string expected, std::string found,
                         std::string hint = "") {
  throw Error(ErrorCode::kInvalidArgument, {.where = kWhere,
                                            .expected = std::move(expected),
                                            .found = std::move(found),
                                            .hint = std::move(hint)});
}

void RequirePositive(const char* name, int64_t value) {
  // Products of two sizes must stay within 64 bits.
  if (value > 0 && value < (int64_t{1} << 31)) return;
  Refuse(fmt::format("0 < {} < 2^31", name), fmt::format("{}", value));
}

void RequireShape(const char* name, const ConstTensorView& view,
                  std::initializer_list<int64_t> shape) {
  const ConstTensorView wanted(nullptr, DType::kF32, shape);
  bool same = view && view.type == DType::kF32 && view.rank == wanted.rank &&
              view.stride[view.rank - 1] == 1;
  for (int i = 0; same && i < view.rank; ++i) {
    same = view.shape[i] == wanted.shape[i];
  }
  if (same) return;
  Refuse(fmt::format("{} as {}", name, ToString(wanted)),
         view ? ToString(view) : "nothing", "f32, last stride 1");
}

// Checked sizes of one call.
struct Sizes {
  int64_t batch, queries, keys;
};

Sizes Check(const MultiHeadAttentionConfig& config,
            const MultiHeadAttentionInput& input) {
  if (!input.x || input.x.rank != 3) {
    Refuse("x as f32 [batch, position, d_model]",
           input.x ? ToString(input.x) : "nothing");
  }
  const Sizes sizes{input.x.shape[0], input.x.shape[1],
                    input.source ? input.source.shape[1] : input.x.shape[1]};
  RequireShape("x", input.x, {sizes.batch, sizes.queries, config.d_model});
  if (input.source) {
    RequireShape("source", input.source,
                 {sizes.batch, sizes.keys, config.source_dim});
  } else if (config.source_dim != config.d_model) {
    Refuse(fmt::format("a source of width {}", config.source_dim), "none",
           "source_dim differs from d_model, so x cannot attend to itself");
  }
  return sizes;
}

AttentionProblem Problem(const Context& context,
                         const MultiHeadAttentionConfig& config,
                         const MultiHeadAttentionInput& input,
                         const Sizes& sizes) {
  AttentionProblem problem;
  problem.device = context.device();
  problem.batch = sizes.batch;
  problem.heads = config.heads;
  problem.kv_heads = config.kv_heads;
  problem.query_len = sizes.queries;
  problem.key_len = sizes.keys;
  problem.head_dim = config.head_dim;
  problem.mask = input.mask;
  return problem;
}

AttentionArgs Args(const MultiHeadAttentionInput& input,
                   const MultiHeadAttentionActivations& kept) {
  AttentionArgs args;
  args.q = kept.q.view();
  args.k = kept.k.view();
  args.v = kept.v.view();
  args.query_lengths = input.query_lengths;
  args.key_lengths = input.key_lengths;
  args.gates = input.gates;
  args.replacement = input.replacement;
  args.active_heads = input.active_heads;
  return args;
}

// [B, M, H, D] as [B, M, H·D].
template <typename View>
View Flat(const View& view) {
  return Reshaped(
      view, {view.shape[0], view.shape[1], view.shape[2] * view.shape[3]});
}

void Randomize(Context& context, uint64_t seed, uint64_t stream,
               Tensor& tensor) {
  if (tensor.rank() != 2) return;  // biases stay 0
  Rng rng(seed, stream);
  const double reach = std::sqrt(3.0 / static_cast<double>(tensor.shape(0)));
  std::vector<float> values(tensor.size());
  for (float& value : values) {
    value = static_cast<float>(reach * (2 * rng.Uniform() - 1));
  }
  Copy(context, ViewOf(values), Reshaped(tensor.view(), {tensor.size()}));
}

}  // namespace

MultiHeadAttentionConfig Resolve(const MultiHeadAttentionConfig& config) {
  MultiHeadAttentionConfig full = config;
  RequirePositive("d_model", full.d_model);
  RequirePositive("heads", full.heads);
  if (full.head_dim == 0) {
    if (full.d_model % full.heads != 0) {
      Refuse(fmt::format("d_model divisible by heads, since each head gets an "
                         "equal share of the width"),
             fmt::format("{} / {} leaves {}", full.d_model, full.heads,
                         full.d_model % full.heads),
             "the equal split is a convention: give head_dim explicitly and "
             "any number of heads works");
    }
    full.head_dim = full.d_model / full.heads;
  }
  if (full.kv_heads == 0) full.kv_heads = full.heads;
  if (full.source_dim == 0) full.source_dim = full.d_model;
  RequirePositive("head_dim", full.head_dim);
  RequirePositive("kv_heads", full.kv_heads);
  RequirePositive("source_dim", full.source_dim);
  RequirePositive("heads · head_dim", full.heads * full.head_dim);
  if (full.heads % full.kv_heads != 0) {
    Refuse("heads a multiple of kv_heads, so that groups are equal",
           fmt::format("{} heads, {} kv_heads", full.heads, full.kv_heads));
  }
  return full;
}

int64_t ParameterCount(const MultiHeadAttentionConfig& config) {
  const MultiHeadAttentionConfig full = Resolve(config);
  const int64_t q = full.heads * full.head_dim;
  const int64_t kv = full.kv_heads * full.head_dim;
  int64_t count = full.d_model * q + 2 * full.source_dim * kv;
  if (full.bias) count += q + 2 * kv;
  if (full.output_projection) {
    count += q * full.d_model + (full.bias ? full.d_model : 0);
  }
  return count;
}

MultiHeadAttentionParameters::MultiHeadAttentionParameters(
    const MultiHeadAttentionConfig& config) {
  const MultiHeadAttentionConfig full = Resolve(config);
  const int64_t q = full.heads * full.head_dim;
  const int64_t kv = full.kv_heads * full.head_dim;
  w_q = Tensor(DType::kF32, {full.d_model, q});
  w_k = Tensor(DType::kF32, {full.source_dim, kv});
  w_v = Tensor(DType::kF32, {full.source_dim, kv});
  if (full.output_projection) w_o = Tensor(DType::kF32, {q, full.d_model});
  if (!full.bias) return;
  b_q = Tensor(DType::kF32, {q});
  b_k = Tensor(DType::kF32, {kv});
  b_v = Tensor(DType::kF32, {kv});
  if (full.output_projection) b_o = Tensor(DType::kF32, {full.d_model});
}

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionConfig& config,
                                       uint64_t seed)
    : config_(Resolve(config)), parameters_(config_) {
  Context context({.threads = 1});  // weights begin on the host
  uint64_t stream = 0;
  MultiHeadAttentionParameters::VisitFields(
      parameters_, [&](const char*, Tensor& tensor, const char*) {
        Randomize(context, seed, stream++, tensor);
      });
}

int64_t MultiHeadAttention::output_dim() const {
  return config_.output_projection ? config_.d_model
                                   : config_.heads * config_.head_dim;
}

void MultiHeadAttention::Forward(Context& context,
                                 const MultiHeadAttentionInput& input,
                                 TensorView out,
                                 MultiHeadAttentionActivations* kept) const {
  const Sizes sizes = Check(config_, input);
  const int64_t batch = sizes.batch;
  RequireShape("out", out, {batch, sizes.queries, output_dim()});
  const int64_t heads = config_.heads, dim = config_.head_dim;
  const int64_t kv_heads = config_.kv_heads;
  const ConstTensorView source = input.source ? input.source : input.x;

  MultiHeadAttentionActivations local;
  MultiHeadAttentionActivations& acts = kept != nullptr ? *kept : local;
  acts.q = Tensor(DType::kF32, {batch, sizes.queries, heads, dim});
  acts.k = Tensor(DType::kF32, {batch, sizes.keys, kv_heads, dim});
  acts.v = Tensor(DType::kF32, {batch, sizes.keys, kv_heads, dim});
  acts.heads = Tensor(DType::kF32, {batch, sizes.queries, heads, dim});
  acts.ungated = Tensor();
  acts.lse = Tensor();
  const MultiHeadAttentionParameters& p = parameters_;
  Project(context, input.x, p.w_q.view(), p.b_q.view(), Flat(acts.q.view()));
  Project(context, source, p.w_k.view(), p.b_k.view(), Flat(acts.k.view()));
  Project(context, source, p.w_v.view(), p.b_v.view(), Flat(acts.v.view()));

  AttentionArgs args = Args(input, acts);
  args.out = acts.heads.view();
  args.observation = input.observation;
  if (kept != nullptr) {
    acts.lse = Tensor(DType::kF32, {batch, heads, sizes.queries});
    args.lse = acts.lse.view();
    if (input.gates) {
      acts.ungated = Tensor(DType::kF32, {batch, sizes.queries, heads, dim});
      args.ungated = acts.ungated.view();
    }
  }
  AttentionForward(context, Problem(context, config_, input, sizes), args);

  const ConstTensorView concat = Flat(ConstTensorView(acts.heads.view()));
  if (config_.output_projection) {
    Project(context, concat, p.w_o.view(), p.b_o.view(), out);
  } else {
    Copy(context, concat, out);
  }
}

Tensor MultiHeadAttention::Forward(Context& context,
                                   const MultiHeadAttentionInput& input) const {
  const Sizes sizes = Check(config_, input);
  Tensor out(DType::kF32, {sizes.batch, sizes.queries, output_dim()});
  Forward(context, input, out.view());
  return out;
}

void MultiHeadAttention::Backward(
    Context& context, const MultiHeadAttentionInput& input,
    const MultiHeadAttentionActivations& kept, ConstTensorView dout,
    const MultiHeadAttentionGradients& gradients) const {
  const Sizes sizes = Check(config_, input);
  const int64_t batch = sizes.batch, queries = sizes.queries;
  RequireShape("dout", dout, {batch, queries, output_dim()});
  RequireShape("kept.q", kept.q.view(),
               {batch, queries, config_.heads, config_.head_dim});
  RequireShape("kept.k", kept.k.view(),
               {batch, sizes.keys, config_.kv_heads, config_.head_dim});
  RequireShape("kept.lse", kept.lse.view(), {batch, config_.heads, queries});
  if (gradients.dx) {
    RequireShape("dx", gradients.dx, {batch, queries, config_.d_model});
  }
  if (gradients.dsource) {
    if (!input.source) Refuse("dsource only with a source", "self-attention");
    RequireShape("dsource", gradients.dsource,
                 {batch, sizes.keys, config_.source_dim});
  }
  const ConstTensorView source = input.source ? input.source : input.x;
  const MultiHeadAttentionParameters& p = parameters_;
  MultiHeadAttentionParameters* dp = gradients.parameters;

  Tensor dq(DType::kF32, {batch, queries, config_.heads, config_.head_dim});
  Tensor dk(DType::kF32,
            {batch, sizes.keys, config_.kv_heads, config_.head_dim});
  Tensor dv(DType::kF32,
            {batch, sizes.keys, config_.kv_heads, config_.head_dim});
  Tensor dheads(DType::kF32, {batch, queries, config_.heads, config_.head_dim});
  if (config_.output_projection) {
    ProjectBackward(context, dout, p.w_o.view(), Flat(dheads.view()),
                    Store::kOverwrite);
    if (dp != nullptr) {
      ProjectGradient(context, Flat(ConstTensorView(kept.heads.view())), dout,
                      dp->w_o.view(), dp->b_o.view());
    }
  } else {
    Copy(context, dout, Flat(dheads.view()));
  }

  AttentionArgs args = Args(input, kept);
  // Only read by the backward.
  MultiHeadAttentionActivations& read =
      const_cast<MultiHeadAttentionActivations&>(kept);
  args.out = read.heads.view();
  args.lse = read.lse.view();
  args.ungated = read.ungated.view();
  AttentionGrads grads;
  grads.dout = dheads.view();
  grads.dentropy = gradients.dentropy;
  grads.dq = dq.view();
  grads.dk = dk.view();
  grads.dv = dv.view();
  grads.dgates = gradients.dgates;
  AttentionBackward(context, Problem(context, config_, input, sizes), args,
                    grads);

  const ConstTensorView dq_flat = Flat(dq.view());
  const ConstTensorView dk_flat = Flat(dk.view());
  const ConstTensorView dv_flat = Flat(dv.view());
  if (dp != nullptr) {
    ProjectGradient(context, input.x, dq_flat, dp->w_q.view(), dp->b_q.view());
    ProjectGradient(context, source, dk_flat, dp->w_k.view(), dp->b_k.view());
    ProjectGradient(context, source, dv_flat, dp->w_v.view(), dp->b_v.view());
  }
  if (gradients.dx) {
    ProjectBackward(context, dq_flat, p.w_q.view(), gradients.dx,
                    Store::kOverwrite);
  }
  // Self-attention: keys and values come from x too, so their part is added.
  const TensorView dsource = input.source ? gradients.dsource : gradients.dx;
  if (!dsource) return;
  ProjectBackward(context, dk_flat, p.w_k.view(), dsource,
                  input.source ? Store::kOverwrite : Store::kAccumulate);
  ProjectBackward(context, dv_flat, p.w_v.view(), dsource, Store::kAccumulate);
}

}  // namespace headwise
