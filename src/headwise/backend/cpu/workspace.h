// Scratch memory for operators: aligned blocks that are kept for the next call
// (fresh pages cost more than the arithmetic of a small problem), with the
// peak counted so that "extra memory" is a measured number.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace headwise {

class Workspace;

// A block taken from a Workspace; goes back when it dies.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Workspace* owner, void* data, size_t bytes)
      : owner_(owner), data_(data), bytes_(bytes) {}
  Scratch(Scratch&& other) noexcept { *this = std::move(other); }
  Scratch& operator=(Scratch&& other) noexcept;
  ~Scratch();

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // The block as `count` values of T; contents are undefined.
  template <typename T>
  T* Raw() const {
    return static_cast<T*>(data_);
  }

 private:
  Workspace* owner_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Thread-safe. Blocks are 64-byte aligned.
class Workspace {
 public:
  Workspace() = default;
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Throws Error(kOutOfMemory) naming the size.
  Scratch Take(size_t bytes);
  template <typename T>
  Scratch TakeArray(size_t count) {
    return Take(count * sizeof(T));
  }

  size_t peak_bytes() const;
  void ResetPeak();
  // Gives blocks that nobody holds back to the system.
  void Trim();

 private:
  friend class Scratch;
  void Return(void* data, size_t bytes);

  mutable std::mutex mutex_;
  std::vector<std::pair<size_t, void*>> free_;
  size_t held_ = 0;
  size_t peak_ = 0;
};

}  // namespace headwise
