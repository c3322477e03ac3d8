// The end of decoding: how two parts of a row make one, and how a row's runs of
// keys are added up and the row finished. What other blocks have left is read
// past the first cache, which does not follow them.
#pragma once

#include "headwise/ops/attention/cuda/device/epilogue.cuh"
#include "headwise/ops/attention/cuda/device/task.cuh"

namespace headwise::attention_cuda {

__device__ inline void Raise(RowPartial& row, float reference) {
  const float delta = reference - row.reference;
  const float alpha = Exp2(-delta);
  row.entropy = alpha * (row.entropy - delta * row.sum);
  row.sum *= alpha;
  row.distance *= alpha;
  row.best *= alpha;
  row.reference = reference;
}

__device__ inline RowPartial Merged(RowPartial a, RowPartial b) {
  const float reference = fmaxf(a.reference, b.reference);
  Raise(a, reference);
  Raise(b, reference);
  const bool take = b.best > a.best || (b.best == a.best && b.place < a.place);
  return {reference,
          a.sum + b.sum,
          a.entropy + b.entropy,
          a.distance + b.distance,
          take ? b.best : a.best,
          take ? b.place : a.place};
}

// A lane's four columns of a row of 128.
__device__ inline float4& FourOf(float* row, int lane) {
  return reinterpret_cast<float4*>(row)[lane];
}

// to += scale · v, where v counts: a run that saw nothing may hold anything.
__device__ inline void AddScaled(float4& to, float scale, const float4& v,
                                 bool counts) {
  to.x = counts ? fmaf(scale, v.x, to.x) : to.x;
  to.y = counts ? fmaf(scale, v.y, to.y) : to.y;
  to.z = counts ? fmaf(scale, v.z, to.z) : to.z;
  to.w = counts ? fmaf(scale, v.w, to.w) : to.w;
}

__device__ inline RowPartial Shuffled(const RowPartial& row, int lane) {
  RowPartial other;
  other.reference = __shfl_xor_sync(~0u, row.reference, lane);
  other.sum = __shfl_xor_sync(~0u, row.sum, lane);
  other.entropy = __shfl_xor_sync(~0u, row.entropy, lane);
  other.distance = __shfl_xor_sync(~0u, row.distance, lane);
  other.best = __shfl_xor_sync(~0u, row.best, lane);
  other.place = __shfl_xor_sync(~0u, row.place, lane);
  return other;
}

template <class T>
__device__ inline void StoreColumns(const Strided& view, const RowPlace& at,
                                    int column, float4 v) {
  T* to = RowsOf<T>(view, false, at.sequence, at.row, at.head) + column;
  *reinterpret_cast<uint2*>(to) =
      make_uint2(Pack<T>(v.x, v.y), Pack<T>(v.z, v.w));
}

// A lane's four columns through the gate.
template <class T>
__device__ inline void StoreDecoded(const ForwardParams& f, const RowPlace& at,
                                    float4 o, float inverse) {
  const int column = 4 * (threadIdx.x % 32);
  if (column >= f.value_dim) return;
  const bool dead = inverse == 0;  // a row that sees nothing has no output
  o = dead ? make_float4(0, 0, 0, 0)
           : make_float4(o.x * inverse, o.y * inverse, o.z * inverse,
                         o.w * inverse);
  if (f.ungated.data != nullptr) StoreColumns<T>(f.ungated, at, column, o);
  if (f.gates != nullptr && at.counts) {
    const int64_t s = at.sequence, m = at.row, h = at.head;
    const float gate =
        f.gates[s * f.gate_batch + m * f.gate_row + h * f.gate_head];
    float4 mu = make_float4(0, 0, 0, 0);
    if (f.replacement != nullptr) {
      const float* from = f.replacement + s * f.replacement_batch +
                          m * f.replacement_row + h * f.replacement_head +
                          column;
      mu = make_float4(from[0], from[1], from[2], from[3]);
    }
    const auto mix = [&](float x, float y) {
      return (gate != 0 ? gate * x : 0) + (1 - gate) * y;
    };
    o = make_float4(mix(o.x, mu.x), mix(o.y, mu.y), mix(o.z, mu.z),
                    mix(o.w, mu.w));
  }
  StoreColumns<T>(f.out, at, column, o);
}

__device__ inline RowPartial PartOf(const DecodeParams& p, int64_t part) {
  const float* from = reinterpret_cast<const float*>(p.parts + part);
  static_assert(sizeof(RowPartial) == 6 * sizeof(float));
  return {__ldcg(from),     __ldcg(from + 1), __ldcg(from + 2),
          __ldcg(from + 3), __ldcg(from + 4), __float_as_int(__ldcg(from + 5))};
}

// All runs of a row whose first part is `first`; every lane gets the same.
__device__ inline RowPartial MergeRuns(const DecodeParams& p, int64_t first) {
  RowPartial row{kNoReference, 0, 0, 0, 0, 0};
  for (int s = threadIdx.x % 32; s < p.plan.splits; s += 32) {
    row = Merged(row, PartOf(p, first + s * kDecodeRows));
  }
  for (int step = 1; step < 32; step *= 2) {
    row = Merged(row, Shuffled(row, step));
  }
  return row;
}

// A lane's four columns of all runs, in units of 2^reference.
__device__ inline float4 AddRuns(const DecodeParams& p, int64_t first,
                                 float reference) {
  const int lane = threadIdx.x % 32;
  float4 o = make_float4(0, 0, 0, 0);
  // Several reads at once: each takes longer than all that is done here.
#pragma unroll 8
  for (int s = 0; s < p.plan.splits; ++s) {
    const int64_t part = first + s * kDecodeRows;
    const float alpha = Exp2(__ldcg(&p.parts[part].reference) - reference);
    const bool counts = __ldcg(&p.parts[part].sum) != 0;
    AddScaled(o, alpha,
              __ldcg(&FourOf(p.outputs + part * kDecodeColumns, lane)), counts);
  }
  return o;
}

// A whole row by one warp: its statistics, and a lane's four columns.
__device__ inline void FinishDecoded(const DecodeParams& p, const RowPlace& at,
                                     const RowPartial& row, float4 o) {
  const RowEnd end = EndOf(p.forward, row, at.head);
  if (threadIdx.x % 32 == 0) WriteStatistics<true>(p.forward, row, end, at);
  p.is_half ? StoreDecoded<__half>(p.forward, at, o, end.inverse)
            : StoreDecoded<__nv_bfloat16>(p.forward, at, o, end.inverse);
}

// Row `at`, whose first part is `first`, by one warp.
__device__ inline void CombineRow(const DecodeParams& p, int64_t first,
                                  const RowPlace& at) {
  RowPartial row{kNoReference, 0, 0, 0, 0, 0};
  float4 o = make_float4(0, 0, 0, 0);
  if (at.counts) {
    row = MergeRuns(p, first);
    o = AddRuns(p, first, row.reference);
  }
  FinishDecoded(p, at, row, o);
}

}  // namespace headwise::attention_cuda
