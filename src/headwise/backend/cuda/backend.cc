// Errors, memory and properties of CUDA devices. Door: backend.h.
#include "headwise/backend/cuda/backend.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "headwise/backend/cuda/blas.h"
#include "headwise/backend/cuda/record.h"
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

// Of the current GPU: what it has left, and what its pool holds unused.
MemoryRoom RoomHere() {
  MemoryRoom room;
  CheckCuda(cudaMemGetInfo(&room.free, &room.total), "cudaMemGetInfo");
  int device = 0;
  cudaMemPool_t pool = nullptr;
  uint64_t reserved = 0, used = 0;
  if (cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetDefaultMemPool(&pool, device) == cudaSuccess &&
      cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent,
                              &reserved) == cudaSuccess &&
      cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) ==
          cudaSuccess) {
    room.free += reserved - std::min(used, reserved);
  }
  return room;
}

void* AllocateOn(cudaStream_t stream, size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMallocAsync(&data, bytes, stream);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // and forget it
    int device = 0;
    cudaGetDevice(&device);
    const MemoryRoom room = RoomHere();
    throw Error(
        ErrorCode::kOutOfMemory,
        {"memory", ByteSize(bytes) + " on " + ToString(Device::Cuda(device)),
         ByteSize(room.free) + " free of " + ByteSize(room.total),
         "a shorter window, a smaller batch or the type bf16 take less"});
  }
  CheckCuda(status, "cudaMallocAsync");
  return data;
}

// Makes `later`, where it is given, wait for `first`; both of the current GPU.
cudaError_t Ordered(cudaStream_t first, std::optional<cudaStream_t> later) {
  cudaEvent_t done = nullptr;
  CheckCuda(cudaEventCreateWithFlags(&done, cudaEventDisableTiming),
            "cudaEventCreate");
  cudaError_t status = cudaEventRecord(done, first);
  if (status == cudaSuccess && later) {
    status = cudaStreamWaitEvent(*later, done, 0);
  }
  cudaEventDestroy(done);  // goes when nothing waits for it any more
  return status;
}

// A GPU's events can be recorded on its own streams alone.
void RequireStreamHere(cudaStream_t stream, int index) {
  if (Ordered(stream, std::nullopt) == cudaSuccess) return;
  cudaGetLastError();  // and forget it
  throw Error(ErrorCode::kInvalidArgument,
              {"context", "a stream of " + ToString(Device::Cuda(index)),
               "another", ""});
}

// Memory that a record must not name: it may be gone when the work runs again.
bool IsOfHost(const void* data) {
  cudaPointerAttributes found = {};
  return cudaPointerGetAttributes(&found, data) == cudaSuccess &&
         found.type != cudaMemoryTypeDevice;
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

bool CanBeginEarly(const void* kernel) {
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, bool> known;
  constexpr int kFirst = 90;  // Hopper
  int device = 0;
  CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  const std::scoped_lock lock(mutex);
  const auto [at, is_new] = known.try_emplace({device, kernel});
  if (is_new) {
    cudaFuncAttributes found = {};
    CheckCuda(cudaFuncGetAttributes(&found, kernel), "cudaFuncGetAttributes");
    at->second = found.ptxVersion >= kFirst && found.binaryVersion >= kFirst;
  }
  return at->second;
}

DeviceBuffer::DeviceBuffer(size_t bytes, cudaStream_t stream)
    : data_(AllocateOn(stream, bytes)), stream_(stream) {}

DeviceBuffer::DeviceBuffer(const void* host, size_t bytes, cudaStream_t stream)
    : DeviceBuffer(bytes, stream) {
  RequireNotRecording(stream, "a copy from the host");
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

CudaBackend::CudaBackend(int index, cudaStream_t given)
    : index_(index), stream_(given), owns_stream_(given == nullptr) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  if (index < 0 || index >= count) {
    throw Error(ErrorCode::kUnsupported,
                {"context", "a GPU " + ToString(Device::Cuda(index)),
                 count == 0 ? "none" : std::to_string(count) + " of them",
                 "take the device cpu, or see nvidia-smi"});
  }
  // What all kernels are built for; bf16, too, begins there.
  constexpr int kOldest = 8;
  if (const auto chip = ChipOf(Device::Cuda(index));
      chip && chip->major < kOldest) {
    throw Error(
        ErrorCode::kUnsupported,
        {"context", "a GPU of compute capability 8.0 or more",
         std::to_string(chip->major) + "." + std::to_string(chip->minor) +
             " of " + ToString(Device::Cuda(index)),
         "take the device cpu"});
  }
  Use();
  owns_stream_
      ? CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                  "cudaStreamCreate")
      : RequireStreamHere(stream_, index);
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
  counters_.reset();
  scratch_.reset();
  blas_.reset();
  cudaStreamSynchronize(stream_);
  if (beside_ != nullptr) {
    cudaEventDestroy(order_);
    cudaStreamDestroy(beside_);
  }
  if (owns_stream_) cudaStreamDestroy(stream_);
}

void CudaBackend::Use() const {
  CheckCuda(cudaSetDevice(index_), "cudaSetDevice");
}

// Whole vectors of 16 bytes: cuBLAS reads to the end of the one that the last
// element of a matrix lies in.
void* CudaBackend::Allocate(size_t bytes) {
  constexpr size_t kVector = 16;
  bytes = (bytes + kVector - 1) / kVector * kVector;
  Use();
  if (recording_ != nullptr) return recording_->Allocate(bytes);
  return AllocateOn(stream_, bytes);
}

std::optional<MemoryRoom> CudaBackend::Room() {
  Use();
  return RoomHere();
}

void CudaBackend::Free(void* data, size_t) noexcept {
  if (recording_ != nullptr) {
    if (!recording_->Free(data)) freed_.push_back(data);
    return;
  }
  for (const auto& record : records_) {
    if (record->Has(data)) return;  // goes with it
  }
  cudaSetDevice(index_);
  cudaFreeAsync(data, stream_);
}

void CudaBackend::Zero(void* data, size_t bytes) {
  Use();
  CheckCuda(cudaMemsetAsync(data, 0, bytes, stream_), "cudaMemsetAsync");
}

void CudaBackend::Copy(void* to, const void* from, size_t bytes) {
  Use();
  if (recording_ != nullptr && (IsOfHost(to) || IsOfHost(from))) {
    RequireNotRecording(stream_, "a copy from or to the host");
  }
  CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_),
            "cudaMemcpyAsync");
}

void CudaBackend::Synchronize() {
  Use();
  if (recording_ != nullptr) RequireNotRecording(stream_, "waiting for it");
  CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void CudaBackend::Order(cudaStream_t first, cudaStream_t later) const {
  Use();
  if (recording_ != nullptr) RequireNotRecording(stream_, "another stream");
  CheckCuda(Ordered(first, later), "cudaStreamWaitEvent");
}

void CudaBackend::WaitFor(void* queue) {
  Order(static_cast<cudaStream_t>(queue), stream_);
}

void CudaBackend::MakeWait(void* queue) {
  Order(stream_, static_cast<cudaStream_t>(queue));
}

void CudaBackend::SynchronizeDevice() {
  Use();
  if (recording_ != nullptr) RequireNotRecording(stream_, "waiting for it");
  CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

int* CudaBackend::Counters(size_t count) {
  if (!counters_ || counter_count_ < count) {
    RequireNotRecording(stream_, "new counters");
    count = std::max<size_t>(count, 64);
    counters_ = std::make_shared<DeviceBuffer>(count * sizeof(int), stream_);
    counter_count_ = count;
    Zero(counters_->Raw<int>(), count * sizeof(int));
  }
  return counters_->Raw<int>();
}

void* CudaBackend::Scratch(size_t bytes) {
  if (!scratch_ || scratch_bytes_ < bytes) {
    RequireNotRecording(stream_, "new scratch");
    bytes = std::max<size_t>(bytes, 64);
    scratch_ = std::make_shared<DeviceBuffer>(bytes, stream_);
    scratch_bytes_ = bytes;
  }
  return scratch_->Raw<void>();
}

CudaBlas& CudaBackend::Blas() {
  if (!blas_) {
    Use();
    blas_ = std::make_unique<CudaBlas>(
        stream_, ChipOf(Device::Cuda(index_)).value_or(CudaChip()).processors);
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

std::shared_ptr<DeviceBackend> MakeCudaBackend(int index, void* queue) {
  return std::make_shared<CudaBackend>(index, static_cast<cudaStream_t>(queue));
}

}  // namespace headwise
