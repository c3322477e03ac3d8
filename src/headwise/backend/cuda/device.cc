// Errors, memory and properties of the CUDA device. Door: device.h.
#include "headwise/backend/cuda/device.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "headwise/error.h"

namespace headwise {

void CheckCuda(cudaError_t status, const char* where) {
  if (status == cudaSuccess) return;
  const ErrorCode code = status == cudaErrorMemoryAllocation
                             ? ErrorCode::kOutOfMemory
                             : ErrorCode::kInternal;
  throw Error(code, {where, "a CUDA call to succeed",
                     std::string(cudaGetErrorName(status)) + ", " +
                         cudaGetErrorString(status),
                     ""});
}

namespace {

std::optional<CudaChip> ReadChip(int device) {
  const auto read = [&](cudaDeviceAttr attribute) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess
               ? value
               : 0;
  };
  CudaChip chip;
  chip.major = read(cudaDevAttrComputeCapabilityMajor);
  chip.minor = read(cudaDevAttrComputeCapabilityMinor);
  chip.processors = read(cudaDevAttrMultiProcessorCount);
  chip.cache_bytes = read(cudaDevAttrL2CacheSize);
  if (chip.major == 0) return std::nullopt;
  return chip;
}

}  // namespace

std::optional<CudaChip> CurrentChip() {
  static std::mutex mutex;
  static std::map<int, std::optional<CudaChip>> chips;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return std::nullopt;
  const std::scoped_lock lock(mutex);
  const auto [at, is_new] = chips.try_emplace(device);
  if (is_new) at->second = ReadChip(device);
  return at->second;
}

DeviceBuffer::DeviceBuffer(size_t bytes, cudaStream_t stream)
    : stream_(stream) {
  CheckCuda(cudaMallocAsync(&data_, bytes, stream), "cudaMallocAsync");
}

DeviceBuffer::DeviceBuffer(const void* host, size_t bytes, cudaStream_t stream)
    : DeviceBuffer(bytes, stream) {
  CheckCuda(cudaMemcpyAsync(data_, host, bytes, cudaMemcpyHostToDevice, stream),
            "cudaMemcpyAsync");
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), stream_(other.stream_) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(stream_, other.stream_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) cudaFreeAsync(data_, stream_);
}

CudaState& StateOf(Context& context) {
  if (!context.accelerator()) {
    context.accelerator() = std::make_shared<CudaState>();
  }
  return *static_cast<CudaState*>(context.accelerator().get());
}

int* DeviceCounters(Context& context, size_t count) {
  CudaState& state = StateOf(context);
  if (state.counter_count < count) {
    const cudaStream_t stream = StreamOf(context);
    state.counters = DeviceBuffer(count * sizeof(int), stream);
    state.counter_count = count;
    CheckCuda(cudaMemsetAsync(state.counters.As<int>(), 0, count * sizeof(int),
                              stream),
              "cudaMemsetAsync");
  }
  return state.counters.As<int>();
}

void* DeviceScratch(Context& context, size_t bytes) {
  CudaState& state = StateOf(context);
  if (state.workspace_bytes < bytes) {
    state.workspace = DeviceBuffer(bytes, StreamOf(context));
    state.workspace_bytes = bytes;
  }
  return state.workspace.As<void>();
}

}  // namespace headwise
