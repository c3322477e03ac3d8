// Memory that is read as one long stream: in pages of 2 MiB where the system
// has them, since prefetching ends at a page and small pages lie anywhere.
#pragma once

#include <atomic>
#include <cstddef>

namespace headwise {

// Given out piece after piece; pages that nobody wrote cost nothing.
class LargeMemory {
 public:
  explicit LargeMemory(size_t bytes);
  ~LargeMemory();
  LargeMemory(const LargeMemory&) = delete;
  LargeMemory& operator=(const LargeMemory&) = delete;

  // The next `bytes` bytes, all zero, aligned to 64; null where fewer are left
  // or the system had none. Safe from any thread. They live as long as this
  // object.
  void* Take(size_t bytes);

 private:
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::atomic<size_t> taken_{0};
};

}  // namespace headwise
