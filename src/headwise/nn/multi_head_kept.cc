// What calls of a MultiHeadAttention keep: keys and values for the next ones,
// activations for a backward. Door: include/headwise/multi_head_attention.h.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "headwise/backend/context_use.h"
#include "headwise/base/one_caller.h"
#include "headwise/multi_head_attention.h"
#include "headwise/nn/multi_head_call.h"

namespace headwise {

MultiHeadAttentionCache::MultiHeadAttentionCache(
    Context& context, const MultiHeadAttentionConfig& config, int64_t batch,
    int64_t capacity)
    : thread_(std::make_unique<CallingThread>()) {
  const MultiHeadAttentionConfig full = Resolve(config);
  if (batch < 1 || capacity < 1 || capacity >= (int64_t{1} << 31)) {
    RefuseMultiHead("a cache of at least one sequence and position",
                    fmt::format("{} × {}", batch, capacity));
  }
  const Shape shape = {batch, capacity, full.kv_heads, full.head_dim};
  k_ = Tensor(context, DType::kF32, shape);
  v_ = Tensor(context, DType::kF32, shape);
  lengths_.resize(static_cast<size_t>(batch));
}

void MultiHeadAttentionCache::Clear() {
  const OneCaller caller(*thread_, kCacheRule);
  std::fill(lengths_.begin(), lengths_.end(), 0);
  of_source_ = false;
}

void MultiHeadAttention::Remember(Context& context, ConstTensorView source,
                                  MultiHeadAttentionCache& cache) const {
  const int64_t keys = source.rank == 3 ? source.shape[1] : 0;
  RequireMultiHeadShape("source", source,
                        {cache.batch(), keys, config_.source_dim});
  if (config_.rotary_base != 0) {
    RefuseMultiHead("no source with rotary positions", ToString(source),
                    "they turn the queries and keys of one sequence");
  }
  RequireMultiHeadShape(
      "cache", cache.k_.view(),
      {cache.batch(), cache.capacity(), config_.kv_heads, config_.head_dim});
  if (keys < 1 || keys > cache.capacity()) {
    RefuseMultiHead(fmt::format("a source of 1 to {} positions, as the cache "
                                "has room for",
                                cache.capacity()),
                    fmt::format("{}", keys));
  }
  const ContextUse use(context);
  const OneCaller caller(*cache.thread_, kCacheRule);
  cache.Clear();
  Temp copy;
  Call::LayerOf(*this, {.cross = true})
      .FillCache(context, SequenceRows(context, source, copy),
                 {cache.k_.view(), cache.v_.view(), cache.lengths_});
  std::fill(cache.lengths_.begin(), cache.lengths_.end(),
            static_cast<int32_t>(keys));
  cache.of_source_ = true;
}

MultiHeadAttentionActivations::MultiHeadAttentionActivations() = default;
MultiHeadAttentionActivations::~MultiHeadAttentionActivations() = default;
MultiHeadAttentionActivations::MultiHeadAttentionActivations(
    MultiHeadAttentionActivations&&) noexcept = default;
MultiHeadAttentionActivations& MultiHeadAttentionActivations::operator=(
    MultiHeadAttentionActivations&&) noexcept = default;

ConstTensorView MultiHeadAttentionActivations::q() const {
  return saved_ ? saved_->layer.args.q : ConstTensorView();
}
ConstTensorView MultiHeadAttentionActivations::k() const {
  return saved_ ? saved_->layer.args.k : ConstTensorView();
}
ConstTensorView MultiHeadAttentionActivations::v() const {
  return saved_ ? saved_->layer.args.v : ConstTensorView();
}
ConstTensorView MultiHeadAttentionActivations::heads() const {
  return saved_ ? saved_->layer.args.out : ConstTensorView();
}
ConstTensorView MultiHeadAttentionActivations::ungated() const {
  return saved_ ? saved_->layer.args.ungated : ConstTensorView();
}
ConstTensorView MultiHeadAttentionActivations::lse() const {
  return saved_ ? saved_->layer.args.lse : ConstTensorView();
}

}  // namespace headwise
