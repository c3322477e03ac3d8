// Devices by name. Door: device_backend.h, include/headwise/device.h.
#include "headwise/backend/device_backend.h"

namespace headwise {

std::string ToString(Device device) {
  return device.is_cpu() ? "cpu" : "cuda:" + std::to_string(device.index);
}

std::shared_ptr<DeviceBackend> MakeBackend(Device device) {
  return device.is_cpu() ? MakeCpuBackend() : MakeCudaBackend(device.index);
}

}  // namespace headwise
