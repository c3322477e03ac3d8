// The public module: its sizes and weights, and a door to the models' layer
// (multi_head_call.h). One head at a time: head_view.cc.
// Door: include/headwise/multi_head_attention.h.
#include "headwise/multi_head_attention.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "headwise/backend/context_use.h"
#include "headwise/base/rng.h"
#include "headwise/nn/multi_head_call.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

void RequirePositive(const char* name, int64_t value) {
  // Products of two sizes must stay within 64 bits.
  if (value > 0 && value < (int64_t{1} << 31)) return;
  RefuseMultiHead(fmt::format("0 < {} < 2^31", name), fmt::format("{}", value));
}

void ResolveRotary(MultiHeadAttentionConfig& full) {
  if (full.rotary_base == 0) return;
  if (!(full.rotary_base > 0) || !std::isfinite(full.rotary_base)) {
    RefuseMultiHead("a positive rotary_base, or 0 for none",
                    fmt::format("{}", full.rotary_base));
  }
  if (full.rotary_dim == 0) full.rotary_dim = full.head_dim;
  if (full.rotary_dim < 0 || full.rotary_dim > full.head_dim ||
      full.rotary_dim % 2 != 0) {
    RefuseMultiHead(
        fmt::format("an even rotary_dim up to head_dim = {}", full.head_dim),
        fmt::format("{}", full.rotary_dim), "dimensions turn in pairs");
  }
  if (full.source_dim != full.d_model) {
    RefuseMultiHead("no source_dim with rotary positions",
                    fmt::format("{}", full.source_dim),
                    "they turn the queries and keys of one sequence");
  }
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
      RefuseMultiHead(
          fmt::format("d_model divisible by heads, since each head gets an "
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
    RefuseMultiHead(
        "heads a multiple of kv_heads, so that groups are equal",
        fmt::format("{} heads, {} kv_heads", full.heads, full.kv_heads));
  }
  ResolveRotary(full);
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
    : config_(Resolve(config)),
      parameters_(config_),
      spare_(std::make_shared<SpareLists>()) {
  Context context({.threads = 1});  // weights begin on the host
  uint64_t stream = 0;
  MultiHeadAttentionParameters::VisitFields(
      parameters_, [&](const char*, Tensor& tensor, const char*) {
        Randomize(context, seed, stream++, tensor);
      });
  if (config_.rotary_base != 0) {
    rope_ =
        std::make_shared<RopeTable>(RopeConfig{.head_dim = config_.head_dim,
                                               .turned = config_.rotary_dim,
                                               .base = config_.rotary_base});
  }
  if (config_.source_dim != config_.d_model) return;
  layer_ = std::make_shared<AttentionLayer>(Call::LayerOf(*this, {}));
}

int64_t MultiHeadAttention::output_dim() const {
  return config_.output_projection ? config_.d_model
                                   : config_.heads * config_.head_dim;
}

void MultiHeadAttention::Run(Context& context, Call& call, TensorView out,
                             MultiHeadAttentionActivations* kept) const {
  RequireMultiHeadShape("out", out,
                        {call.batch(), call.queries(), output_dim()});
  MultiHeadAttentionCache* cache = call.given().cache;
  if (kept != nullptr) {
    if (cache != nullptr) {
      RefuseMultiHead("a call without a cache", "one with",
                      "there is no backward through a cache");
    }
    kept->saved_ = std::make_unique<MultiHeadAttentionActivations::Saved>();
  }
  if (call.empty()) return;
  InputHooks hooks(call.given());
  call.Forward(context, hooks, Call::Mix::kYes, out,
               kept != nullptr ? &kept->saved_->layer : nullptr);
  if (cache == nullptr || cache->of_source_) return;
  for (int32_t& length : cache->lengths_) {
    length += static_cast<int32_t>(call.queries());
  }
}

void MultiHeadAttention::Forward(Context& context,
                                 const MultiHeadAttentionInput& input,
                                 TensorView out,
                                 MultiHeadAttentionActivations* kept) const {
  const ContextUse use(context);
  if (kept == nullptr && Call::RunSmall(context, *this, input, out)) return;
  Call call(context, *this, input);
  Run(context, call, out, kept);
}

Tensor MultiHeadAttention::Forward(Context& context,
                                   const MultiHeadAttentionInput& input) const {
  const ContextUse use(context);
  Call call(context, *this, input);
  Tensor out(DType::kF32, {call.batch(), call.queries(), output_dim()});
  if (!call.empty()) Run(context, call, out.view(), nullptr);
  return out;
}

void MultiHeadAttention::Backward(
    Context& context, const MultiHeadAttentionInput& input,
    const MultiHeadAttentionActivations& kept, ConstTensorView dout,
    const MultiHeadAttentionGradients& gradients) const {
  const ContextUse use(context);
  Call call(context, *this, input);
  const int64_t batch = call.batch(), queries = call.queries();
  const int64_t keys = call.keys(), dim = config_.head_dim;
  RequireMultiHeadShape("dout", dout, {batch, queries, output_dim()});
  if (gradients.dx) {
    RequireMultiHeadShape("dx", gradients.dx,
                          {batch, queries, config_.d_model});
  }
  if (gradients.dsource) {
    if (!input.source) {
      RefuseMultiHead("dsource only with a source", "self-attention");
    }
    RequireMultiHeadShape("dsource", gradients.dsource,
                          {batch, keys, config_.source_dim});
  }
  if (call.empty()) {
    if (gradients.dsource) Fill(context, 0, gradients.dsource);
    return;
  }
  RequireMultiHeadShape("kept.q", kept.q(),
                        {batch, queries, config_.heads, dim});
  RequireMultiHeadShape("kept.k", kept.k(),
                        {batch, keys, config_.kv_heads, dim});
  RequireMultiHeadShape("kept.lse", kept.lse(),
                        {batch, config_.heads, queries});
  call.Backward(context, kept.saved_->layer, dout, gradients);
}

}  // namespace headwise
