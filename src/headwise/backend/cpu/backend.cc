// The host as a device: its heap, and no queue. Door: device_backend.h.
#include <cstdlib>
#include <cstring>
#include <memory>

#include "headwise/backend/cpu/alignment.h"
#include "headwise/backend/device_backend.h"
#include "headwise/base/byte_size.h"
#include "headwise/error.h"

namespace headwise {
namespace {

class CpuBackend : public DeviceBackend {
 public:
  void* Allocate(size_t bytes) override {
    const size_t rounded = (bytes / kAlignment + 1) * kAlignment;
    void* data =
        rounded > bytes ? std::aligned_alloc(kAlignment, rounded) : nullptr;
    if (data != nullptr) return data;
    throw Error(ErrorCode::kOutOfMemory,
                {"memory", ByteSize(bytes) + " of host memory", "none", ""});
  }
  void Free(void* data, size_t) noexcept override { std::free(data); }
  void Zero(void* data, size_t bytes) override { std::memset(data, 0, bytes); }
  void Copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memmove(to, from, bytes);
  }
  void Synchronize() override {}
};

}  // namespace

std::shared_ptr<DeviceBackend> MakeCpuBackend() {
  return std::make_shared<CpuBackend>();
}

}  // namespace headwise
