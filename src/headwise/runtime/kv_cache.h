// Keys and values of the sequences of a session, layer by layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/nn/cache_split.h"
#include "headwise/runtime/kv_policy.h"

namespace headwise {

// The attention of each layer that a cache is for.
enum class CacheSide : uint8_t { kSelf, kCross };

// At most `capacity` rows of each of `sequences`, in every layer of `stack`.
struct CacheShape {
  const Stack* stack = nullptr;
  CacheSide side = CacheSide::kSelf;
  int64_t sequences = 1;
  int64_t capacity = 0;
  DType type = DType::kF32;
  // Which heads keep what; null: all keep everything. Not kept.
  const KvPolicy* policy = nullptr;
};

class KvCache {
 public:
  KvCache() = default;
  // On the context's device. Memory comes with Reserve.
  KvCache(Context& context, const CacheShape& shape);

  int64_t capacity() const { return capacity_; }
  // Rows that there is memory for; grows with Reserve.
  int64_t reserved() const { return rows_; }
  int64_t length(int64_t sequence) const { return lengths_[sequence]; }
  CacheBytes bytes() const;

  // Reserves memory for `rows` rows, at most the capacity; what is held stays.
  void Reserve(Context& context, int64_t rows);
  // One view a layer; they share the lengths. Valid until Reserve or Reorder.
  std::span<const CacheView> views() const { return views_; }
  // After all layers have run with `rows` new rows a sequence.
  void Advance(int64_t rows);
  void Clear();
  // Sequence i becomes a copy of the old sequence order[i] (beam search).
  void Reorder(Context& context, std::span<const int32_t> order);

 private:
  int64_t longest() const;  // rows held of a sequence

  // [sequences, rows, groups, dim]: of groups that keep everything, which
  // without a policy are all, and of those that keep sinks and a window.
  struct Layer {
    Tensor k, v;
    Tensor window_k, window_v;
    CacheSplit split;      // no parts: all keep everything
    int64_t keys_of = -1;  // the layer whose cache is read; negative: its own
  };
  // Rows for a window, one of which is filled before old ones are moved up.
  int64_t WindowRoom(const CacheSplit& split) const;
  void Divide(const KvPolicy& policy, const AttentionLayer& from, Layer& layer);
  void SetViews();

  std::vector<Layer> layers_;
  std::vector<int32_t> lengths_;
  std::vector<CacheView> views_;
  int64_t capacity_ = 0;
  int64_t rows_ = 0;
};

}  // namespace headwise
