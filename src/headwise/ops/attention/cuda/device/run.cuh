// Parts of a row that runs of keys give, and how two make one; shared by
// decode.cu and combine.cu.
#pragma once

#include "headwise/ops/attention/cuda/device/softmax.cuh"
#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

// Lets the next kernel be launched before this one ends, and waits in it for
// this one's results; nothing where the chip cannot.
__device__ inline void LetNextLaunch() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__device__ inline void WaitForLaunchBefore() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

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

}  // namespace headwise::attention_cuda
