// Memory that several may take until it is used up.
#pragma once

#include <atomic>
#include <cstddef>

namespace headwise {

// Safe from any thread; never more than `bytes` are taken at one time.
class MemoryBudget {
 public:
  explicit MemoryBudget(size_t bytes) : bytes_(bytes), left_(bytes) {}

  size_t bytes() const { return bytes_; }
  size_t left() const { return left_.load(std::memory_order_relaxed); }

  // All of it or nothing.
  [[nodiscard]] bool Take(size_t bytes) {
    size_t left = left_.load(std::memory_order_relaxed);
    do {
      if (bytes > left) return false;
    } while (!left_.compare_exchange_weak(left, left - bytes,
                                          std::memory_order_relaxed));
    return true;
  }
  // What was taken.
  void Give(size_t bytes) { left_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  const size_t bytes_;
  std::atomic<size_t> left_;
};

}  // namespace headwise
