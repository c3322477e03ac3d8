// Launches the Hopper forward kernel; included by the generated files.
#pragma once

#include "headwise/backend/cuda/device.h"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/sm90/backward.cuh"
#include "headwise/ops/attention/cuda/sm90/forward.cuh"
#include "headwise/ops/attention/cuda/sm90/observe.cuh"

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

// f16 has no kernel without statistics: it would be one more of 24.
template <class T, int kDim>
void LaunchForwardSm90(const ForwardParams& params, const TensorMaps& maps,
                       bool statistics, int processors, cudaStream_t stream) {
  constexpr bool kAlways = std::is_same_v<T, __half>;
  if (kAlways || statistics) {
    Launch<sm90::Config<T, kDim, true>>(params, maps, processors, stream);
  } else if constexpr (!kAlways) {
    Launch<sm90::Config<T, kDim, false>>(params, maps, processors, stream);
  }
}

template <int kDim>
void LaunchObserveSm90(const ObserveParams& params, const TensorMaps& maps,
                       int processors, cudaStream_t stream) {
  using C = sm90::ObserveConfig<kDim>;
  static_assert(C::kM == kSm90ObserveRows && C::kN == kSm90KeyTile);
  ObserveParams p = params;
  p.forward.order.blocks = CeilDiv(p.forward.query_len, C::kM);
  if (p.forward.order.count() == 0) return;
  constexpr int kBytes = sizeof(sm90::ObserveShared<C>) + 1024;
  const auto kernel = sm90::ObserveKernel<C>;
  CheckCuda(cudaFuncSetAttribute(
                kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
            "attention cuda.sm90");
  const int blocks = Min(processors, p.forward.order.count());
  kernel<<<blocks, C::kThreads, kBytes, stream>>>(maps.q, maps.k, p);
  CheckCuda(cudaGetLastError(), "attention cuda.sm90");
}

template <class C>
void LaunchGradients(const BackwardParams& params, const GradientMaps& maps,
                     int work, int processors, cudaStream_t stream) {
  static_assert(C::kN == kSm90GradientColumns);
  if (work == 0) return;
  constexpr int kBytes = sizeof(sm90::GradientShared<C>) + 1024;
  const auto kernel = sm90::GradientKernel<C>;
  CheckCuda(cudaFuncSetAttribute(
                kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
            "attention cuda.sm90");
  kernel<<<Min(processors, work), C::kThreads, kBytes, stream>>>(maps, params);
  CheckCuda(cudaGetLastError(), "attention cuda.sm90");
}

template <class T, int kDim>
void LaunchBackwardSm90(const BackwardParams& params,
                        const GradientMaps& of_queries,
                        const GradientMaps& of_keys, int processors,
                        cudaStream_t stream) {
  if (params.dk.data != nullptr || params.dv.data != nullptr ||
      params.received.data != nullptr) {
    LaunchGradients<sm90::GradientConfig<T, kDim, true>>(
        params, of_keys, params.key_order.count(), processors, stream);
  }
  if (params.dq.data != nullptr) {
    LaunchGradients<sm90::GradientConfig<T, kDim, false>>(
        params, of_queries, params.forward.order.count(), processors, stream);
  }
}

}  // namespace headwise::attention_cuda
