// The CUDA device as the operators see it: errors, memory, what chip it is.
// Only files under a cuda/ folder include this.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <optional>

#include "headwise/context.h"

namespace headwise {

// Throws Error for a status that is not success. `where` names the call.
void CheckCuda(cudaError_t status, const char* where);

struct CudaChip {
  int major = 0;  // compute capability
  int minor = 0;
  int processors = 0;
  size_t cache_bytes = 0;  // L2
};
// The current device's, or nothing where there is none. Read once a device.
std::optional<CudaChip> CurrentChip();

// Device memory that returns to the pool in stream order.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(size_t bytes, cudaStream_t stream);
  // A copy of host memory.
  DeviceBuffer(const void* host, size_t bytes, cudaStream_t stream);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  template <typename T>
  T* As() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// What the backend keeps on a Context between calls.
struct CudaState {
  DeviceBuffer counters;
  size_t counter_count = 0;
  DeviceBuffer workspace;
  size_t workspace_bytes = 0;
};
CudaState& StateOf(Context& context);

// At least `count` counters for blocks to agree by who does what; zero between
// calls: whoever counts leaves them so. Valid until the next request.
int* DeviceCounters(Context& context, size_t count);

// At least `bytes` of device memory, kept from call to call: small calls would
// spend longer on allocation than on work. Valid until the next request.
void* DeviceScratch(Context& context, size_t bytes);

// Calls run on the default stream, one after another.
inline cudaStream_t StreamOf(Context&) { return nullptr; }

}  // namespace headwise
