// Launching a kernel that takes more shared memory than it gets unasked.
#pragma once

#include <type_traits>

#include "headwise/backend/cuda/backend.h"

namespace headwise::attention_cuda {

// where: named in the error if the launch fails.
template <class... Params>
void LaunchKernel(void (*kernel)(Params...), dim3 grid, int threads,
                  int shared_bytes, cudaStream_t stream, const char* where,
                  const std::type_identity_t<Params>&... params) {
  CheckCuda(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           shared_bytes),
      where);
  kernel<<<grid, threads, shared_bytes, stream>>>(params...);
  CheckCuda(cudaGetLastError(), where);
}

// The same of a kernel that begins with cuda::Begin (ops/cuda/kernel.cuh).
template <class... Params>
void LaunchKernelEarly(void (*kernel)(Params...), dim3 grid, int threads,
                       int shared_bytes, cudaStream_t stream, const char* where,
                       const std::type_identity_t<Params>&... params) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CheckCuda(cudaStreamIsCapturing(stream, &status), where);
  if (status == cudaStreamCaptureStatusNone ||
      !CanBeginEarly(reinterpret_cast<const void*>(kernel))) {
    return LaunchKernel(kernel, grid, threads, shared_bytes, stream, where,
                        params...);
  }
  CheckCuda(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           shared_bytes),
      where);
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  CheckCuda(cudaLaunchKernelEx(&config, kernel, params...), where);
}

}  // namespace headwise::attention_cuda
