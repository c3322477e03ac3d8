// Turning queries and keys, and appending the keys and their values to caches,
// at once: at decoding each of the two is hardly more than a launch. rope.cu
// alone includes it.
#pragma once

#include <cstdint>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/rope/cuda/turn.cuh"
#include "headwise/ops/rope/implementation.h"

namespace headwise::cuda::rope {

// Where rows of [B, ·, G, ·] lie, in elements.
template <typename T>
struct SequenceRows {
  T* data = nullptr;
  int64_t sequence = 0, row = 0, head = 0;

  __device__ T* At(int64_t b, int64_t i, int h) const {
    return data + b * sequence + i * row + h * head;
  }
};
template <typename T, typename Void>
SequenceRows<T> RowsOf(const BasicView<Void>& view) {
  return {view.template Raw<T>(), view.stride[0], view.stride[1],
          view.stride[2]};
}

template <typename T>
struct AppendParams {
  Params<T> turn;
  int64_t each;      // tokens of a sequence
  int64_t capacity;  // rows of a cache
  int groups;        // heads of keys
  int value_dim;
  const int32_t* held;
  SequenceRows<T> keys, values_to;
  SequenceRows<const T> values;
};

// A block has kThreads packs of one token: of x's pairs, then of its values.
// kCount divides half and the values' width, or is 1.
template <int kCount, typename T>
__global__ void __launch_bounds__(kThreads)
    RopeAppendKernel(AppendParams<T> p) {
  Begin();
  __shared__ float cosine[kThreads], sine[kThreads];
  const int64_t token = blockIdx.x;
  const int n = static_cast<int>(blockIdx.y) * kThreads + threadIdx.x;
  const int packs = p.turn.half / kCount;  // of one head
  const int turned = p.turn.heads * packs;
  const int head = n / packs, pair = n % packs * kCount;
  T* low =
      p.turn.x + token * p.turn.token_stride + head * p.turn.head_stride + pair;
  T* high = low + p.turn.half;
  float x[kCount], y[kCount];
  if (n < turned) {  // on their way while the turns are made
    Load(low, x);
    Load(high, y);
  }
  const int64_t b = token / p.each, i = token - b * p.each;
  const int64_t at = p.held[b] + i;
  const bool fits = at >= 0 && at < p.capacity;
  MakeTurns(p.turn, {token, 1, 0, p.turn.half}, cosine, sine);
  __syncthreads();
  if (n < turned) {
    TurnPack<kCount>(cosine + pair, sine + pair, x, y);
    Store(x, low);
    Store(y, high);
    const int group = head - (p.turn.heads - p.groups);
    if (group < 0 || !fits) return;
    T* to = p.keys.At(b, at, group) + pair;
    Store(x, to);
    Store(y, to + p.turn.half);
    return;
  }
  const int of_head = p.value_dim / kCount;
  const int group = (n - turned) / of_head;
  if (group >= p.groups || !fits) return;
  const int column = (n - turned) % of_head * kCount;
  using Packed = Pack<T, kCount>;
  *reinterpret_cast<Packed*>(p.values_to.At(b, at, group) + column) =
      *reinterpret_cast<const Packed*>(p.values.At(b, i, group) + column);
}

static_assert(kMostAppended <= kThreads);  // a thread makes one turn

template <int kCount, typename T>
void LaunchAppend(Context& context, const AppendParams<T>& p) {
  const int64_t packs = int64_t{p.turn.heads} * p.turn.half / kCount +
                        int64_t{p.groups} * p.value_dim / kCount;
  LaunchEarly(context, "rope", RopeAppendKernel<kCount, T>,
              dim3(static_cast<unsigned>(p.turn.tokens),
                   static_cast<unsigned>(CeilDiv(packs, kThreads))),
              kThreads, p);
}

template <typename T>
void RunAppend(Context& context, const RopeCall& call, const Params<T>& turn) {
  const RopeAppend& a = *call.append;
  AppendParams<T> p = {.turn = turn,
                       .each = turn.tokens / a.keys.shape[0],
                       .capacity = a.keys.shape[1],
                       .groups = static_cast<int>(a.keys.shape[2]),
                       .value_dim = static_cast<int>(a.values.to.shape[3]),
                       .held = a.held.Raw<int32_t>(),
                       .keys = RowsOf<T>(a.keys),
                       .values_to = RowsOf<T>(a.values.to),
                       .values = RowsOf<const T>(a.values.from)};
  constexpr int kCount = kPack<T>;
  const bool wide = HasPacks(call.args.x, kCount) && HasPacks(a.keys, kCount) &&
                    HasPacks(a.values.from, kCount) &&
                    HasPacks(a.values.to, kCount) && turn.half % kCount == 0 &&
                    p.value_dim % kCount == 0;
  wide ? LaunchAppend<kCount>(context, p) : LaunchAppend<1>(context, p);
}

}  // namespace headwise::cuda::rope
