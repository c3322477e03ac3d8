// Devices by name. Door: device_backend.h, include/headwise/device.h.
#include "headwise/backend/device_backend.h"

#include "headwise/error.h"

namespace headwise {
namespace {

[[noreturn]] void RefuseQueue() {
  throw Error(ErrorCode::kInvalidArgument,
              {"context",
               "no stream on the CPU, where calls return when they "
               "are done",
               "a stream", "make it with .device = Device::Cuda(0)"});
}

}  // namespace

void DeviceBackend::WaitFor(void*) { RefuseQueue(); }
void DeviceBackend::MakeWait(void*) { RefuseQueue(); }

std::string ToString(Device device) {
  return device.is_cpu() ? "cpu" : "cuda:" + std::to_string(device.index);
}

std::shared_ptr<DeviceBackend> MakeBackend(Device device, void* queue) {
  if (device.is_cuda()) return MakeCudaBackend(device.index, queue);
  if (queue != nullptr) RefuseQueue();
  return MakeCpuBackend();
}

}  // namespace headwise
