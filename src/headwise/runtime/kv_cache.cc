// KvCache. Door: kv_cache.h.
#include "headwise/runtime/kv_cache.h"

#include <algorithm>
#include <utility>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// Rows a window has beyond what it must keep: old ones are moved up once in so
// many steps.
constexpr int64_t kWindowSlack = 16;

// A cache by role divides the groups of one layer.
void RequireOwnKeys(const AttentionLayer& layer) {
  if (layer.has_own_keys() && !layer.config().shares_keys) return;
  throw Error(ErrorCode::kUnsupported,
              {layer.site().name,
               "layers with keys of their own for a cache "
               "whose heads keep different parts",
               layer.Special(), "leave the cache as it is"});
}

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

// The same tensor with memory for `rows` rows a sequence.
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
    const AttentionLayer& from =
        side == CacheSide::kSelf ? block.attention() : block.cross();
    Layer layer;
    int64_t groups = from.config().kv_heads, windowed = 0;
    layer.keys_of = from.config().keys_of;
    if (!from.has_own_keys()) groups = 0;
    if (shape.policy != nullptr) {
      RequireOwnKeys(from);
      const std::vector<bool> whole = WholeGroups(*shape.policy, from);
      windowed = std::count(whole.begin(), whole.end(), false);
      groups -= windowed;
      if (windowed > 0) Divide(*shape.policy, from, layer);
    }
    const auto empty = [&](int64_t of, int64_t dim) {
      return Tensor(context, shape.type, {shape.sequences, 0, of, dim});
    };
    const auto [head_dim, value_dim] = from.CacheWidths(context, shape.type);
    layer.k = empty(groups, head_dim);
    layer.v = empty(groups, value_dim);
    layer.window_k = empty(windowed, head_dim);
    layer.window_v = empty(windowed, value_dim);
    layers_.push_back(std::move(layer));
  }
  SetViews();
}

// Runs of groups that are kept alike.
void KvCache::Divide(const KvPolicy& policy, const AttentionLayer& from,
                     Layer& layer) {
  const std::vector<bool> whole = WholeGroups(policy, from);
  layer.split.sinks = policy.sinks;
  layer.split.window = policy.window;
  std::vector<CachePart>& parts = layer.split.parts;
  for (size_t g = 0; g < whole.size(); ++g) {
    if (parts.empty() || parts.back().whole != whole[g]) {
      parts.push_back({.first_group = static_cast<int64_t>(g),
                       .groups = 0,
                       .whole = whole[g]});
    }
    ++parts.back().groups;
  }
}

int64_t KvCache::WindowRoom(const CacheSplit& split) const {
  return std::min(rows_, split.sinks + split.window - 1 + kWindowSlack);
}

void KvCache::SetViews() {
  views_.clear();
  for (Layer& layer : layers_) {
    if (layer.split.parts.empty()) {
      layer.keys_of < 0
          ? views_.push_back({layer.k.view(), layer.v.view(), lengths_})
          : views_.push_back(CacheView(views_[layer.keys_of]));
      continue;
    }
    int64_t whole = 0, windowed = 0;  // groups so far
    for (CachePart& part : layer.split.parts) {
      int64_t& begin = part.whole ? whole : windowed;
      Tensor& k = part.whole ? layer.k : layer.window_k;
      Tensor& v = part.whole ? layer.v : layer.window_v;
      part.k = Slice(k.view(), 2, begin, begin + part.groups);
      part.v = Slice(v.view(), 2, begin, begin + part.groups);
      begin += part.groups;
    }
    views_.push_back({.lengths = lengths_, .split = &layer.split});
  }
}

int64_t KvCache::longest() const {
  return lengths_.empty() ? 0
                          : *std::max_element(lengths_.begin(), lengths_.end());
}

void KvCache::Reserve(Context& context, int64_t rows) {
  if (rows <= rows_) return;
  // On a device a step is recorded anew whenever this grows.
  const int64_t fewest = context.device().is_cpu() ? 0 : 256;
  rows_ = std::min(capacity_, std::max({rows, 2 * rows_, fewest}));
  for (Layer& layer : layers_) {
    Grow(context, rows_, longest(), layer.k);
    Grow(context, rows_, longest(), layer.v);
    if (layer.split.parts.empty()) continue;
    Grow(context, WindowRoom(layer.split), layer.split.held, layer.window_k);
    Grow(context, WindowRoom(layer.split), layer.split.held, layer.window_v);
  }
  SetViews();
}

CacheBytes KvCache::bytes() const {
  CacheBytes bytes;
  for (const Layer& layer : layers_) {
    bytes.kept += layer.k.bytes() + layer.v.bytes() + layer.window_k.bytes() +
                  layer.window_v.bytes();
    const int64_t groups = layer.k.shape(2) + layer.window_k.shape(2);
    const int64_t numbers = layer.k.shape(0) * rows_ * groups *
                            (layer.k.shape(3) + layer.v.shape(3));
    bytes.whole += static_cast<size_t>(BytesOf(layer.k.type(), numbers));
  }
  return bytes;
}

void KvCache::Advance(int64_t rows) {
  for (int32_t& length : lengths_) length += static_cast<int32_t>(rows);
  for (Layer& layer : layers_) {
    CacheSplit& split = layer.split;
    if (split.parts.empty()) continue;
    split.held = split.HeldAfter(rows, layer.window_k.shape(1));
  }
}

void KvCache::Clear() {
  std::fill(lengths_.begin(), lengths_.end(), 0);
  for (Layer& layer : layers_) layer.split.held = 0;
}

void KvCache::Reorder(Context& context, std::span<const int32_t> order) {
  Temp copy;
  const ConstTensorView from = OnDevice(context, ViewOf(order), copy);
  for (Layer& layer : layers_) {
    ReorderTensor(context, from, longest(), layer.k);
    ReorderTensor(context, from, longest(), layer.v);
    if (layer.split.parts.empty()) continue;
    ReorderTensor(context, from, layer.split.held, layer.window_k);
    ReorderTensor(context, from, layer.split.held, layer.window_v);
  }
  SetViews();
  std::vector<int32_t> fresh;
  for (const int32_t old : order) fresh.push_back(lengths_[old]);
  std::copy(fresh.begin(), fresh.end(), lengths_.begin());
}

}  // namespace headwise
