// What a device does for the tensors on it: memory and copies, in the order of
// one queue. Each Context has one of its own; what is on it keeps it alive.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "headwise/device.h"

namespace headwise {

// Memory of a device, in bytes.
struct MemoryRoom {
  size_t free = 0, total = 0;
};

// Work that was recorded, to be done again with what then lies in the same
// memory. It goes before that memory does.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void Run() = 0;
};

// Calls may return before the work is done; work on one backend is done in the
// order in which it was asked for.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  // Memory aligned to 64 bytes, its contents undefined. Throws
  // Error(kOutOfMemory) naming the size.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* data, size_t bytes) noexcept = 0;
  virtual void Zero(void* data, size_t bytes) = 0;
  // Between any two places of which at least one is the host or this device.
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;
  // Waits until all that was asked for is done.
  virtual void Synchronize() = 0;
  // As those of Context; null and refusals where there is no queue.
  virtual void* queue() const { return nullptr; }
  virtual void WaitFor(void* queue);
  virtual void MakeWait(void* queue);
  virtual void SynchronizeDevice() {}
  // None where it is the host's, of which the system tells.
  virtual std::optional<MemoryRoom> Room() { return std::nullopt; }

  // What `work` asks of the device, recorded and not done. Null where the
  // device records nothing or the work cannot be recorded, since it waits for
  // results or reads memory of the host: do it as ever. The same work was done
  // before, so that what is made once is there.
  virtual std::unique_ptr<RecordedWork> Record(
      const std::function<void()>& /*work*/) {
    return nullptr;
  }
};

// queue: ContextOptions::stream. Throws Error: kUnsupported where the device is
// not here, or not in this build; kInvalidArgument for a queue of the host.
std::shared_ptr<DeviceBackend> MakeBackend(Device device,
                                           void* queue = nullptr);

// The two kinds, one folder each; CUDA's is in cuda/ or, where the build has
// none, in no_cuda/.
std::shared_ptr<DeviceBackend> MakeCpuBackend();
std::shared_ptr<DeviceBackend> MakeCudaBackend(int index, void* queue);

}  // namespace headwise
