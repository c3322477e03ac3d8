// Launches the Hopper forward kernel; included by the generated files.
#pragma once

#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/launch_kernel.cuh"
#include "headwise/ops/attention/cuda/sm90/backward.cuh"
#include "headwise/ops/attention/cuda/sm90/forward.cuh"

namespace headwise::attention_cuda {

template <class C>
void Launch(const typename C::Params& params, const TensorMaps& maps,
            int processors, cudaStream_t stream) {
  // The structure is aligned by hand to the swizzle's 1024 bytes.
  constexpr int kBytes = sizeof(sm90::Shared<C>) + 1024;
  static_assert(kBytes <= 232448, "a block's shared memory on Hopper");
  const int blocks = Min(processors, ForwardOf(params).order.count());
  LaunchKernel(sm90::ForwardKernel<C>, blocks, C::kThreads, kBytes, stream,
               "attention cuda.sm90", maps.q, maps.k, maps.v, params);
}

// f16 has no kernel without statistics: it would be one more of 27.
template <class T, int kDim>
void LaunchForwardSm90(const ForwardParams& params, const TensorMaps& maps,
                       bool statistics, int processors, cudaStream_t stream) {
  constexpr bool kAlways = std::is_same_v<T, __half>;
  if (kAlways || statistics) {
    Launch<sm90::Config<T, kDim, Statistics::kCore>>(params, maps, processors,
                                                     stream);
  } else if constexpr (!kAlways) {
    Launch<sm90::Config<T, kDim, Statistics::kNone>>(params, maps, processors,
                                                     stream);
  }
}

template <int kDim>
void LaunchFullSm90(const ObserveParams& params, const TensorMaps& maps,
                    int processors, cudaStream_t stream) {
  Launch<sm90::Config<__nv_bfloat16, kDim, Statistics::kFull>>(
      params, maps, processors, stream);
}

// early: under the end of the kernel before, as its blocks leave.
template <class C>
void LaunchGradients(const BackwardParams& params, const GradientMaps& maps,
                     int work, int processors, bool early,
                     cudaStream_t stream) {
  static_assert(C::kN == kSm90GradientColumns);
  constexpr int kBytes = sizeof(sm90::GradientShared<C>) + 1024;
  const auto kernel = sm90::GradientKernel<C>;
  CheckCuda(cudaFuncSetAttribute(
                kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
            "attention cuda.sm90");
  cudaLaunchAttribute under = {};
  under.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  under.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = Min(processors, work);
  config.blockDim = C::kThreads;
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  config.attrs = &under;
  config.numAttrs = early ? 1 : 0;
  CheckCuda(cudaLaunchKernelEx(&config, kernel, maps, params),
            "attention cuda.sm90");
}

template <class T, int kDim>
void LaunchBackwardSm90(const BackwardParams& params,
                        const GradientMaps& of_queries,
                        const GradientMaps& of_keys, int processors,
                        cudaStream_t stream) {
  const bool keys = params.key_order.count() > 0 &&
                    (params.dk.data != nullptr || params.dv.data != nullptr ||
                     params.received.data != nullptr);
  if (keys) {
    LaunchGradients<sm90::GradientConfig<T, kDim, true>>(
        params, of_keys, params.key_order.count(), processors, false, stream);
  }
  if (params.dq.data != nullptr && params.forward.order.count() > 0) {
    // Neither needs the other: the second fills what the first leaves idle.
    BackwardParams second = params;
    second.forward.counters += 2;
    LaunchGradients<sm90::GradientConfig<T, kDim, false>>(
        second, of_queries, params.forward.order.count(), processors, keys,
        stream);
  }
}

}  // namespace headwise::attention_cuda
