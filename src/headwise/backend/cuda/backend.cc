// Errors, memory and properties of CUDA devices. Door: backend.h.
#include "headwise/backend/cuda/backend.h"

#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "headwise/backend/cuda/blas.h"
#include "headwise/base/byte_size.h"
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

std::optional<CudaChip> ChipOf(Device device) {
  static std::mutex mutex;
  static std::map<int, std::optional<CudaChip>> chips;
  if (!device.is_cuda()) return std::nullopt;
  const std::scoped_lock lock(mutex);
  const auto [at, is_new] = chips.try_emplace(device.index);
  if (is_new) at->second = ReadChip(device.index);
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

CudaBackend::CudaBackend(int index) : index_(index) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  if (index < 0 || index >= count) {
    throw Error(ErrorCode::kUnsupported,
                {"context", "a GPU " + ToString(Device::Cuda(index)),
                 count == 0 ? "none" : std::to_string(count) + " of them",
                 "take the device cpu, or see nvidia-smi"});
  }
  Use();
  CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
            "cudaStreamCreate");
  // Memory that is given back stays with the program: the next call wants it.
  cudaMemPool_t pool = nullptr;
  CheckCuda(cudaDeviceGetDefaultMemPool(&pool, index_), "cudaMemPool");
  uint64_t all = std::numeric_limits<uint64_t>::max();
  CheckCuda(
      cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all),
      "cudaMemPool");
}

CudaBackend::~CudaBackend() {
  cudaSetDevice(index_);
  counters_ = {};
  scratch_ = {};
  blas_.reset();
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void CudaBackend::Use() const {
  CheckCuda(cudaSetDevice(index_), "cudaSetDevice");
}

void* CudaBackend::Allocate(size_t bytes) {
  Use();
  void* data = nullptr;
  const cudaError_t status = cudaMallocAsync(&data, bytes, stream_);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // and forget it
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    throw Error(
        ErrorCode::kOutOfMemory,
        {"memory", ByteSize(bytes) + " on " + ToString(Device::Cuda(index_)),
         ByteSize(free) + " free of " + ByteSize(total), ""});
  }
  CheckCuda(status, "cudaMallocAsync");
  return data;
}

void CudaBackend::Free(void* data, size_t) noexcept {
  cudaSetDevice(index_);
  cudaFreeAsync(data, stream_);
}

void CudaBackend::Zero(void* data, size_t bytes) {
  Use();
  CheckCuda(cudaMemsetAsync(data, 0, bytes, stream_), "cudaMemsetAsync");
}

void CudaBackend::Copy(void* to, const void* from, size_t bytes) {
  Use();
  CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_),
            "cudaMemcpyAsync");
}

void CudaBackend::Synchronize() {
  Use();
  CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

int* CudaBackend::Counters(size_t count) {
  if (counter_count_ < count) {
    counters_ = DeviceBuffer(count * sizeof(int), stream_);
    counter_count_ = count;
    Zero(counters_.As<int>(), count * sizeof(int));
  }
  return counters_.As<int>();
}

void* CudaBackend::Scratch(size_t bytes) {
  if (scratch_bytes_ < bytes) {
    scratch_ = DeviceBuffer(bytes, stream_);
    scratch_bytes_ = bytes;
  }
  return scratch_.As<void>();
}

CudaBlas& CudaBackend::Blas() {
  if (!blas_) {
    Use();
    blas_ = std::make_unique<CudaBlas>(stream_);
  }
  return *blas_;
}

CudaBackend& CudaOf(Context& context) {
  if (!context.device().is_cuda()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"context", "a context on CUDA", ToString(context.device()),
                 "make it with .device = Device::Cuda(0)"});
  }
  auto& backend = static_cast<CudaBackend&>(*context.backend());
  CheckCuda(cudaSetDevice(context.device().index), "cudaSetDevice");
  return backend;
}

std::shared_ptr<DeviceBackend> MakeCudaBackend(int index) {
  return std::make_shared<CudaBackend>(index);
}

}  // namespace headwise
