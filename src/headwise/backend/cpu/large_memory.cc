// LargeMemory over POSIX calls. Door: large_memory.h.
#include "headwise/backend/cpu/large_memory.h"

#include <sys/mman.h>

#include <cstdint>

#include "headwise/backend/cpu/alignment.h"

namespace headwise {
namespace {

constexpr size_t kPage = size_t{2} << 20;

}  // namespace

LargeMemory::LargeMemory(size_t bytes) {
  if (bytes == 0 || bytes > SIZE_MAX - kPage) return;
  const size_t wanted = bytes + kPage;  // so that it begins at a page
  void* mapped = mmap(nullptr, wanted, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return;
  mapped_ = mapped;
  mapped_bytes_ = wanted;
  size_ = bytes;
  const auto begin = reinterpret_cast<uintptr_t>(mapped_);
  data_ = static_cast<std::byte*>(mapped_) + (kPage - begin % kPage) % kPage;
#ifdef MADV_HUGEPAGE
  // Whole pages only: a rest would take as much memory as a page. A refusal
  // costs time, nothing else.
  madvise(data_, bytes / kPage * kPage, MADV_HUGEPAGE);
#endif
}

LargeMemory::~LargeMemory() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

void* LargeMemory::Take(size_t bytes) {
  if (bytes > size_) return nullptr;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  size_t begin = taken_.load(std::memory_order_relaxed);
  do {
    if (size_ - bytes < begin) return nullptr;
  } while (!taken_.compare_exchange_weak(begin, begin + rounded,
                                         std::memory_order_relaxed));
  return data_ + begin;
}

}  // namespace headwise
