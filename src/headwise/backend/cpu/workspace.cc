// Workspace. Door: workspace.h.
#include "headwise/backend/cpu/workspace.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "headwise/backend/cpu/alignment.h"
#include "headwise/base/byte_size.h"
#include "headwise/error.h"

namespace headwise {
namespace {

// A free block up to this many times the wanted size is reused.
constexpr size_t kMaxSlack = 2;

// Frees blocks, those returned longest ago first, until free and used ones
// together stay within kMaxSlack times the most that was used at once. (Sizes
// that grow from call to call would each leave a block behind.)
void MakeRoom(std::vector<std::pair<size_t, void*>>& free, size_t used,
              size_t peak) {
  size_t total = used;
  for (const auto& [bytes, data] : free) total += bytes;
  auto kept = free.begin();
  while (kept != free.end() && total > kMaxSlack * std::max(peak, used)) {
    total -= kept->first;
    std::free(kept->second);
    ++kept;
  }
  free.erase(free.begin(), kept);
}

}  // namespace

Scratch& Scratch::operator=(Scratch&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Scratch::~Scratch() {
  if (owner_ != nullptr) owner_->Return(data_, bytes_);
}

Workspace::~Workspace() { Trim(); }

Scratch Workspace::Take(size_t bytes) {
  const size_t wanted =
      std::max<size_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
  std::lock_guard lock(mutex_);
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->first < wanted || it->first > wanted * kMaxSlack) continue;
    if (best == free_.end() || it->first < best->first) best = it;
  }
  size_t size = wanted;
  void* data = nullptr;
  if (best != free_.end()) {
    size = best->first;
    data = best->second;
    free_.erase(best);
  } else if (wanted >= bytes) {
    MakeRoom(free_, held_ + wanted, peak_);
    data = std::aligned_alloc(kAlignment, wanted);
  }
  if (data == nullptr) {
    throw Error(ErrorCode::kOutOfMemory,
                {"workspace", ByteSize(bytes) + " of scratch memory", "none",
                 "use a smaller problem"});
  }
  held_ += size;
  peak_ = std::max(peak_, held_);
  return Scratch(this, data, size);
}

void Workspace::Return(void* data, size_t bytes) {
  std::lock_guard lock(mutex_);
  held_ -= bytes;
  free_.emplace_back(bytes, data);
}

size_t Workspace::peak_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_;
}

void Workspace::ResetPeak() {
  std::lock_guard lock(mutex_);
  peak_ = held_;
}

void Workspace::Trim() {
  std::lock_guard lock(mutex_);
  for (auto& [bytes, data] : free_) std::free(data);
  free_.clear();
}

}  // namespace headwise
