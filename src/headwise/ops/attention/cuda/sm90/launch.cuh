// Launches the Hopper forward kernel; included by the generated files.
#pragma once

#include "headwise/backend/cuda/device.h"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/sm90/forward.cuh"

namespace headwise::attention_cuda {

template <class C>
void Launch(const ForwardParams& params, const TensorMaps& maps, int processors,
            cudaStream_t stream) {
  static_assert(C::kN == kSm90KeyTile);
  // The structure is aligned by hand to the swizzle's 1024 bytes.
  constexpr int kBytes = sizeof(sm90::Shared<C>) + 1024;
  const auto kernel = sm90::ForwardKernel<C>;
  CheckCuda(cudaFuncSetAttribute(
                kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
            "attention cuda.sm90");
  const int blocks = Min(processors, params.order.count());
  kernel<<<blocks, C::kThreads, kBytes, stream>>>(maps.q, maps.k, maps.v,
                                                  params);
  CheckCuda(cudaGetLastError(), "attention cuda.sm90");
}

template <class T, int kDim>
void LaunchForwardSm90(const ForwardParams& params, const TensorMaps& maps,
                       bool statistics, int processors, cudaStream_t stream) {
  if (statistics) {
    Launch<sm90::Config<T, kDim, true>>(params, maps, processors, stream);
  } else {
    Launch<sm90::Config<T, kDim, false>>(params, maps, processors, stream);
  }
}

}  // namespace headwise::attention_cuda
