// One entry of A from (q, k, LSE) by one thread, for passes that need few.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "headwise/ops/attention/cuda/device/element.cuh"
#include "headwise/ops/attention/cuda/device/score.cuh"
#include "headwise/ops/attention/cuda/device/task.cuh"

namespace headwise::attention_cuda {

// 8 elements of two bytes.
__device__ inline void Widen(const uint4& bits, bool is_half, float (&x)[8]) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair =
        is_half ? __half22float2(*reinterpret_cast<const __half2*>(&words[i]))
                : __bfloat1622float2(
                      *reinterpret_cast<const __nv_bfloat162*>(&words[i]));
    x[2 * i] = pair.x;
    x[2 * i + 1] = pair.y;
  }
}

__device__ inline const uint4* RowAt(const Strided& view, int64_t batch,
                                     int64_t row, int64_t head) {
  return reinterpret_cast<const uint4*>(
      RowsOf<uint16_t>(view, false, batch, row, head));
}

// The index-th of the active heads.
__device__ inline int HeadAt(const ForwardParams& f, int index) {
  return f.active_heads != nullptr ? f.active_heads[index] : index;
}

// One query of one head.
struct QueryRow {
  int head, position, key_len;
  int64_t batch, key_start, row;
  float lse;  // −∞ where the query sees nothing or does not count
  const uint4* q;
  int64_t q_at;  // of its first element, from f.q.data
};

__device__ inline QueryRow RowOf(const ForwardParams& f, int sequence,
                                 int query, int head) {
  const Extent extent = ExtentOf(f, sequence);
  QueryRow r;
  r.head = head;
  r.position = query + extent.offset;
  r.key_len = extent.key_len;
  r.batch = f.packed ? 0 : sequence;
  r.key_start = extent.key_start;
  r.row = extent.query_start + query;
  r.q = RowAt(f.q, r.batch, r.row, head);
  r.q_at = r.batch * f.q.batch + r.row * f.q.row + head * f.q.head;
  r.lse = -INFINITY;
  if (query < extent.query_len) {
    r.lse = static_cast<const float*>(
        f.lse.data)[r.batch * f.lse.batch + head * f.lse.head + r.row];
  }
  return r;
}

// The same where rows have to be read element by element.
__device__ inline float LooseEntry(const ForwardParams& f, const QueryRow& r,
                                   int key) {
  const int64_t k_at = r.batch * f.k.batch + (r.key_start + key) * f.k.row +
                       r.head / f.queries_per_kv * f.k.head;
  float sum = 0;
  for (int i = 0; i < f.head_dim; ++i) {
    sum = fmaf(LoadElement(f.q.data, r.q_at + i, f.element),
               LoadElement(f.k.data, k_at + i, f.element), sum);
  }
  return expf(ShapeScore(f, r.head, sum, r.position - key).z - r.lse);
}

// A of one entry; 0 where the query does not see the key.
__device__ inline float Entry(const ForwardParams& f, bool is_half,
                              const QueryRow& r, int key) {
  if (r.lse == -INFINITY || !Sees(f.band, r.position, key, r.key_len)) return 0;
  if (f.is_loose) return LooseEntry(f, r, key);
  const uint4* k =
      RowAt(f.k, r.batch, r.key_start + key, r.head / f.queries_per_kv);
  float sum = 0;
  for (int i = 0; i < f.head_dim / 8; ++i) {
    float a[8], b[8];
    Widen(r.q[i], is_half, a);
    Widen(k[i], is_half, b);
#pragma unroll
    for (int c = 0; c < 8; ++c) sum = fmaf(a[c], b[c], sum);
  }
  float result = 0;
  WithShape(f, [&]<bool kShaped>(std::bool_constant<kShaped>) {
    result =
        ProbabilityOf<kShaped>(f, r.head, sum, r.position - key, r.lse / kLn2)
            .z;
  });
  return result;
}

}  // namespace headwise::attention_cuda
