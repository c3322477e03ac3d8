// Stands in for cuda/ in a build without it. Door: device_backend.h.
#include "headwise/backend/device_backend.h"
#include "headwise/error.h"

namespace headwise {

std::shared_ptr<DeviceBackend> MakeCudaBackend(int, void*) {
  throw Error(ErrorCode::kUnsupported,
              {"context", "a build with CUDA", "one without",
               "build the preset cuda, or take the device cpu"});
}

}  // namespace headwise
