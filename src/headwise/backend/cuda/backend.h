// A CUDA device as the operators see it: errors, memory, what chip it is.
// Only files under a cuda/ or nccl/ folder include this.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "headwise/backend/device_backend.h"
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
// A GPU's, or nothing where there is none. Read once a GPU.
std::optional<CudaChip> ChipOf(Device device);

// Whether a kernel was compiled with the instructions to wait for those before
// it (ops/cuda/kernel.cuh): for a chip that has them, and not by the driver
// from what is meant for an older one. Read once a kernel, of the current GPU.
bool CanBeginEarly(const void* kernel);

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
  T* Raw() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

class CudaBlas;        // blas.h
class RecordedMemory;  // record.h

// One GPU for one Context: a queue (stream) of its own, memory from the GPU's
// pool, and what operators keep there from call to call. Its functions make
// the GPU the calling thread's current one.
class CudaBackend : public DeviceBackend,
                    public std::enable_shared_from_this<CudaBackend> {
 public:
  // Works on `given`, or where that is null on a stream of its own. Throws
  // Error: kUnsupported where there is no such GPU, kInvalidArgument for a
  // stream of another.
  CudaBackend(int index, cudaStream_t given);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  void* Allocate(size_t bytes) override;
  void Free(void* data, size_t bytes) noexcept override;
  void Zero(void* data, size_t bytes) override;
  void Copy(void* to, const void* from, size_t bytes) override;
  void Synchronize() override;
  void* queue() const override { return stream_; }
  void WaitFor(void* queue) override;
  void MakeWait(void* queue) override;
  void SynchronizeDevice() override;
  std::optional<MemoryRoom> Room() override;
  std::unique_ptr<RecordedWork> Record(
      const std::function<void()>& work) override;

  // Whether what is asked for is recorded and not done.
  bool recording() const { return recording_ != nullptr; }
  // While it is: a second queue, for work that needs nothing but what was asked
  // for so far and that is done when all of the record is.
  cudaStream_t Beside();

  cudaStream_t stream() const { return stream_; }

  // At least `count` counters for blocks to agree by who does what; zero
  // between calls: whoever counts leaves them so. Valid until the next request.
  int* Counters(size_t count);
  // At least `bytes` of memory, kept from call to call: small calls would spend
  // longer on allocation than on work. Valid until the next request.
  void* Scratch(size_t bytes);
  // Products on this queue, from the first request on.
  CudaBlas& Blas();

 private:
  friend class CudaRecord;
  void Use() const;
  // Of one GPU; work on `later` begins when that on `first` is done.
  void Order(cudaStream_t first, cudaStream_t later) const;

  int index_ = 0;
  cudaStream_t stream_ = nullptr;
  bool owns_stream_ = false;
  // A record holds those that it was made with.
  std::shared_ptr<DeviceBuffer> counters_;
  size_t counter_count_ = 0;
  std::shared_ptr<DeviceBuffer> scratch_;
  size_t scratch_bytes_ = 0;
  RecordedMemory* recording_ = nullptr;
  std::vector<std::shared_ptr<RecordedMemory>> records_;  // of all records
  std::vector<void*> freed_;  // while recording: what is not the record's
  cudaStream_t beside_ = nullptr;
  cudaEvent_t order_ = nullptr;
  bool forked_ = false;
  std::unique_ptr<CudaBlas> blas_;
};

// The backend of a Context on CUDA, its GPU made current.
CudaBackend& CudaOf(Context& context);
inline cudaStream_t StreamOf(Context& context) {
  return CudaOf(context).stream();
}

}  // namespace headwise
