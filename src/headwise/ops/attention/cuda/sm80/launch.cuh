// Launches the portable kernels; included by the generated files.
#pragma once

#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/launch_kernel.cuh"
#include "headwise/ops/attention/cuda/sm80/backward.cuh"
#include "headwise/ops/attention/cuda/sm80/forward.cuh"

namespace headwise::attention_cuda {

template <class Params>
void Launch(void (*kernel)(Params), const Params& params, dim3 grid,
            int shared_bytes, cudaStream_t stream) {
  LaunchKernel(kernel, grid, sm80::kThreads, shared_bytes, stream,
               "attention cuda.sm80", params);
}

template <class T, int kDim, int kValueDim>
void LaunchForwardSm80(const ForwardParams& params, cudaStream_t stream) {
  Launch<ForwardParams>(sm80::ForwardKernel<T, kDim, kValueDim>, params,
                        dim3(params.order.count()),
                        sizeof(sm80::ForwardShared<T, kDim, kValueDim>),
                        stream);
}

template <class T, int kDim, int kValueDim>
void LaunchBackwardSm80(const BackwardParams& params, cudaStream_t stream) {
  const ForwardParams& f = params.forward;
  constexpr int kBytes = sizeof(sm80::BackwardShared<T, kDim, kValueDim>);
  constexpr int kParts = sm80::kParts<kDim>;
  const bool of_keys = params.dk.data != nullptr || params.dv.data != nullptr ||
                       params.received.data != nullptr;
  if (of_keys && f.key_len > 0) {
    Launch<BackwardParams>(sm80::KeyGradientsKernel<T, kDim, kValueDim>, params,
                           dim3(CeilDiv(f.key_len, sm80::kRows),
                                params.kv_heads, params.sequences * kParts),
                           kBytes, stream);
  }
  if (params.dq.data != nullptr && f.order.count() > 0) {
    Launch<BackwardParams>(sm80::QueryGradientsKernel<T, kDim, kValueDim>,
                           params, dim3(f.order.count(), kParts), kBytes,
                           stream);
  }
}

}  // namespace headwise::attention_cuda
