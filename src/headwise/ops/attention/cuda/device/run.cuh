// Parts of a row that runs of keys give, and how two make one: what decode.cu
// and combine.cuh share.
#pragma once

#include "headwise/ops/attention/cuda/device/softmax.cuh"
#include "headwise/ops/attention/cuda/params.h"

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

}  // namespace headwise::attention_cuda
