// Memory of the lists that one call makes: on the stack while they are short,
// else a Workspace's, so that after the first call nothing is asked of the
// system.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <new>
#include <utility>

#include "headwise/backend/cpu/workspace.h"

namespace headwise {

class ScratchMemory {
 public:
  explicit ScratchMemory(Workspace& workspace)
      : blocks_(workspace), memory_(first_, sizeof(first_), &blocks_) {}
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;

  // Of one thread.
  std::pmr::memory_resource* resource() { return &memory_; }

 private:
  // Blocks of the workspace, each behind the Scratch that holds it.
  class Blocks : public std::pmr::memory_resource {
   public:
    explicit Blocks(Workspace& workspace) : workspace_(workspace) {}

   private:
    static constexpr size_t kHeader = 64;  // keeps a Scratch's alignment
    static_assert(sizeof(Scratch) <= kHeader);

    void* do_allocate(size_t bytes, size_t /*alignment*/) override {
      Scratch block = workspace_.Take(kHeader + bytes);
      char* const data = block.Raw<char>();
      new (data) Scratch(std::move(block));
      return data + kHeader;
    }
    void do_deallocate(void* data, size_t /*bytes*/,
                       size_t /*alignment*/) override {
      auto* const at =
          reinterpret_cast<Scratch*>(static_cast<char*>(data) - kHeader);
      const Scratch block = std::move(*at);
      at->~Scratch();
    }
    bool do_is_equal(const memory_resource& other) const noexcept override {
      return this == &other;
    }

    Workspace& workspace_;
  };

  alignas(std::max_align_t) std::byte first_[2048];
  Blocks blocks_;
  std::pmr::monotonic_buffer_resource memory_;
};

}  // namespace headwise
