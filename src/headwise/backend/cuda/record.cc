// Recording work as a CUDA graph. Doors: device_backend.h, record.h.
#include "headwise/backend/cuda/record.h"

#include <algorithm>
#include <utility>

#include "headwise/error.h"

namespace headwise {

RecordedMemory::~RecordedMemory() {
  for (const Block& block : blocks_) cudaFree(block.data);
}

void* RecordedMemory::Allocate(size_t bytes) {
  Block* best = nullptr;
  for (Block& block : blocks_) {
    if (block.used || block.bytes < bytes) continue;
    if (best == nullptr || block.bytes < best->bytes) best = &block;
  }
  if (best == nullptr) {
    Block block{.bytes = std::max<size_t>(bytes, 256)};
    // Of the queue it would become a part of the record.
    CheckCuda(cudaMalloc(&block.data, block.bytes), "cudaMalloc");
    blocks_.push_back(block);
    best = &blocks_.back();
  }
  best->used = true;
  return best->data;
}

bool RecordedMemory::Free(void* data) {
  for (Block& block : blocks_) {
    if (block.data != data) continue;
    block.used = false;
    return true;
  }
  return false;
}

bool RecordedMemory::Has(const void* data) const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [&](const Block& block) { return block.data == data; });
}

void RequireNotRecording(cudaStream_t stream, const char* what) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) return;
  if (status == cudaStreamCaptureStatusNone) return;
  throw Error(ErrorCode::kUnsupported,
              {"device", "work that can be recorded", what, ""});
}

// A graph that can be launched. It holds the scratch that was current.
class CudaRecord : public RecordedWork {
 public:
  CudaRecord(std::shared_ptr<CudaBackend> backend,
             std::shared_ptr<RecordedMemory> memory)
      : backend_(std::move(backend)), memory_(std::move(memory)) {
    kept_ = {backend_->counters_, backend_->scratch_};
  }
  ~CudaRecord() override {
    cudaSetDevice(backend_->index_);
    cudaStreamSynchronize(backend_->stream_);
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    std::erase(backend_->records_, memory_);
  }
  CudaRecord(const CudaRecord&) = delete;
  CudaRecord& operator=(const CudaRecord&) = delete;

  void Make(cudaGraph_t graph) {
    CheckCuda(cudaGraphInstantiate(&executable_, graph, 0),
              "cudaGraphInstantiate");
    CheckCuda(cudaGraphUpload(executable_, backend_->stream_),
              "cudaGraphUpload");
  }
  void Run() override {
    backend_->Use();
    CheckCuda(cudaGraphLaunch(executable_, backend_->stream_),
              "cudaGraphLaunch");
  }

 private:
  std::shared_ptr<CudaBackend> backend_;
  std::shared_ptr<RecordedMemory> memory_;
  std::vector<std::shared_ptr<DeviceBuffer>> kept_;
  cudaGraphExec_t executable_ = nullptr;
};

cudaStream_t CudaBackend::Beside() {
  if (beside_ == nullptr) {
    CheckCuda(cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking),
              "cudaStreamCreate");
    CheckCuda(cudaEventCreateWithFlags(&order_, cudaEventDisableTiming),
              "cudaEventCreate");
  }
  CheckCuda(cudaEventRecord(order_, stream_), "cudaEventRecord");
  CheckCuda(cudaStreamWaitEvent(beside_, order_, 0), "cudaStreamWaitEvent");
  forked_ = true;
  return beside_;
}

std::unique_ptr<RecordedWork> CudaBackend::Record(
    const std::function<void()>& work) {
  Use();
  // The default stream records nothing.
  if (stream_ == cudaStreamLegacy) return nullptr;
  auto memory = std::make_shared<RecordedMemory>();
  recording_ = memory.get();
  records_.push_back(memory);
  // Relaxed: memory may be asked for meanwhile, by other threads too.
  CheckCuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed),
            "cudaStreamBeginCapture");
  bool whole = true;
  try {
    work();
    if (std::exchange(forked_, false)) {
      CheckCuda(cudaEventRecord(order_, beside_), "cudaEventRecord");
      CheckCuda(cudaStreamWaitEvent(stream_, order_, 0), "cudaStreamWaitEvent");
    }
  } catch (const Error&) {
    whole = false;  // whoever does the work instead hears why
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream_, &graph);
  recording_ = nullptr;
  forked_ = false;
  for (void* data : std::exchange(freed_, {})) cudaFreeAsync(data, stream_);
  auto record = std::make_unique<CudaRecord>(shared_from_this(), memory);
  if (!whole || status != cudaSuccess) {
    cudaGetLastError();  // and forget it
    if (graph != nullptr) cudaGraphDestroy(graph);
    return nullptr;
  }
  try {
    record->Make(graph);
  } catch (const Error&) {
    cudaGetLastError();
    record.reset();
  }
  cudaGraphDestroy(graph);
  return record;
}

}  // namespace headwise
