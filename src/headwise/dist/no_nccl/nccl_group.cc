// In a build without NCCL. Door: dist/device_group.h.
#include "headwise/dist/device_group.h"
#include "headwise/error.h"

namespace headwise::dist {

std::unique_ptr<DeviceGroup> MakeNcclGroup(Context&, Group&) {
  throw Error(ErrorCode::kUnsupported,
              {"ranks", "a build with NCCL", "one without",
               "build the preset cuda where nccl.h is installed, or let ranks "
               "add up in a tree"});
}

bool HasNccl() { return false; }

}  // namespace headwise::dist
