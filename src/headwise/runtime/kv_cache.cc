// KvCache. Door: kv_cache.h.
#include "headwise/runtime/kv_cache.h"

#include <algorithm>
#include <utility>

#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// The rows of all sequences, [sequences, rows, groups, dim].
Tensor Empty(Context& context, const Tensor& like, int64_t rows) {
  return Tensor(context, like.type(),
                {like.shape(0), rows, like.shape(2), like.shape(3)});
}

// Sequence i becomes the old sequence order[i]; rows past `held` need no copy.
void ReorderTensor(Context& context, ConstTensorView order, int64_t held,
                   Tensor& tensor) {
  Tensor fresh = Empty(context, tensor, tensor.shape(1));
  GatherRows(context, Slice(tensor.view(), 1, 0, held), order,
             Slice(fresh.view(), 1, 0, held));
  tensor = std::move(fresh);
}

// The same with room for `rows` rows a sequence.
void Grow(Context& context, int64_t rows, int64_t held, Tensor& tensor) {
  Tensor fresh = Empty(context, tensor, rows);
  Copy(context, Slice(tensor.view(), 1, 0, held),
       Slice(fresh.view(), 1, 0, held));
  tensor = std::move(fresh);
}

}  // namespace

KvCache::KvCache(Context& context, const CacheShape& shape)
    : lengths_(shape.sequences, 0), capacity_(shape.capacity) {
  const CacheSide side = shape.side;
  for (const Block& block : shape.stack->blocks) {
    const AttentionLayer& layer = side == CacheSide::kSelf
                                      ? block.parts().attention
                                      : block.parts().cross;
    const int64_t groups = layer.config().kv_heads;
    layers_.push_back(
        {Tensor(context, shape.type,
                {shape.sequences, 0, groups, layer.config().head_dim}),
         Tensor(context, shape.type,
                {shape.sequences, 0, groups, layer.value_dim()})});
  }
  for (Layer& layer : layers_) {
    views_.push_back({layer.k.view(), layer.v.view(), lengths_});
  }
}

int64_t KvCache::longest() const {
  return lengths_.empty() ? 0
                          : *std::max_element(lengths_.begin(), lengths_.end());
}

void KvCache::Reserve(Context& context, int64_t rows) {
  if (rows <= rows_) return;
  rows_ = std::min(capacity_, std::max(rows, 2 * rows_));
  for (size_t i = 0; i < layers_.size(); ++i) {
    Grow(context, rows_, longest(), layers_[i].k);
    Grow(context, rows_, longest(), layers_[i].v);
    views_[i].k = layers_[i].k.view();
    views_[i].v = layers_[i].v.view();
  }
}

size_t KvCache::bytes() const {
  size_t bytes = 0;
  for (const Layer& layer : layers_) bytes += layer.k.bytes() + layer.v.bytes();
  return bytes;
}

void KvCache::Advance(int64_t rows) {
  for (int32_t& length : lengths_) length += static_cast<int32_t>(rows);
}

void KvCache::Clear() { std::fill(lengths_.begin(), lengths_.end(), 0); }

void KvCache::Reorder(Context& context, std::span<const int32_t> order) {
  Temp copy;
  const ConstTensorView from = OnDevice(context, ViewOf(order), copy);
  for (size_t i = 0; i < layers_.size(); ++i) {
    ReorderTensor(context, from, longest(), layers_[i].k);
    ReorderTensor(context, from, longest(), layers_[i].v);
    views_[i].k = layers_[i].k.view();
    views_[i].v = layers_[i].v.view();
  }
  std::vector<int32_t> fresh;
  for (const int32_t old : order) fresh.push_back(lengths_[old]);
  std::copy(fresh.begin(), fresh.end(), lengths_.begin());
}

}  // namespace headwise
