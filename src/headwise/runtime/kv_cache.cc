// KvCache. Door: kv_cache.h.
#include "headwise/runtime/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace headwise {
namespace {

// A tensor whose sequence i is the old sequence order[i]; rows past `length`
// need no copy.
void ReorderTensor(Tensor& tensor, std::span<const int32_t> order,
                   std::span<const int32_t> lengths) {
  Tensor fresh(tensor.type(), {tensor.shape(0), tensor.shape(1),
                               tensor.shape(2), tensor.shape(3)});
  const int64_t row = tensor.shape(2) * tensor.shape(3);
  const int64_t sequence = tensor.shape(1) * row;
  for (size_t i = 0; i < order.size(); ++i) {
    std::memcpy(fresh.As<float>() + static_cast<int64_t>(i) * sequence,
                tensor.As<float>() + order[i] * sequence,
                lengths[order[i]] * row * sizeof(float));
  }
  tensor = std::move(fresh);
}

// The same with room for `rows` rows a sequence.
void Grow(Tensor& tensor, int64_t rows, std::span<const int32_t> lengths) {
  Tensor fresh(tensor.type(),
               {tensor.shape(0), rows, tensor.shape(2), tensor.shape(3)});
  const int64_t row = tensor.shape(2) * tensor.shape(3);
  for (int64_t b = 0; b < tensor.shape(0); ++b) {
    std::memcpy(fresh.As<float>() + b * rows * row,
                tensor.As<float>() + b * tensor.shape(1) * row,
                lengths[b] * row * sizeof(float));
  }
  tensor = std::move(fresh);
}

}  // namespace

KvCache::KvCache(const Stack& stack, CacheSide side, int64_t sequences,
                 int64_t capacity)
    : lengths_(sequences, 0), capacity_(capacity) {
  for (const Block& block : stack.blocks) {
    const AttentionLayer& layer = side == CacheSide::kSelf
                                      ? block.parts().attention
                                      : block.parts().cross;
    const int64_t groups = layer.config().kv_heads;
    layers_.push_back(
        {Tensor(DType::kF32, {sequences, 0, groups, layer.config().head_dim}),
         Tensor(DType::kF32, {sequences, 0, groups, layer.value_dim()})});
  }
  for (Layer& layer : layers_) {
    views_.push_back({layer.k.view(), layer.v.view(), lengths_});
  }
}

void KvCache::Reserve(int64_t rows) {
  if (rows <= rows_) return;
  rows_ = std::min(capacity_, std::max(rows, 2 * rows_));
  for (size_t i = 0; i < layers_.size(); ++i) {
    Grow(layers_[i].k, rows_, lengths_);
    Grow(layers_[i].v, rows_, lengths_);
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

void KvCache::Reorder(std::span<const int32_t> order) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    ReorderTensor(layers_[i].k, order, lengths_);
    ReorderTensor(layers_[i].v, order, lengths_);
    views_[i].k = layers_[i].k.view();
    views_[i].v = layers_[i].v.view();
  }
  std::vector<int32_t> fresh;
  for (const int32_t from : order) fresh.push_back(lengths_[from]);
  std::copy(fresh.begin(), fresh.end(), lengths_.begin());
}

}  // namespace headwise
