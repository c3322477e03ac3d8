// Work recorded as a CUDA graph, and the memory that it runs in. Only
// backend.cc and record.cc include this.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "headwise/backend/cuda/backend.h"

namespace headwise {

// Scratch of recorded work. What is given back is handed out again in the same
// recording: its work runs in one order, so that no two users meet. It stays
// as long as the record.
class RecordedMemory {
 public:
  RecordedMemory() = default;
  ~RecordedMemory();
  RecordedMemory(const RecordedMemory&) = delete;
  RecordedMemory& operator=(const RecordedMemory&) = delete;

  void* Allocate(size_t bytes);
  // False: it is not from here.
  bool Free(void* data);
  bool Has(const void* data) const;

 private:
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
    bool used = false;
  };
  std::vector<Block> blocks_;
};

// Throws where the queue records: the work would read or write memory of the
// host that is gone when it runs again, or has to wait.
void RequireNotRecording(cudaStream_t stream, const char* what);

}  // namespace headwise
