// Pages that are given back. Door: release_pages.h.
#include "headwise/base/release_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace headwise {

void ReleasePages(const void* data, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = (from + page - 1) / page * page;
  const uintptr_t end = (from + bytes) / page * page;
  // A refusal costs memory, not correctness.
  if (begin < end) {
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}

}  // namespace headwise
