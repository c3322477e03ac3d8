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

}  // namespace headwise::attention_cuda
