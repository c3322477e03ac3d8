// In a build without MPI. Door: dist/group.h.
#include "headwise/dist/group.h"
#include "headwise/error.h"

namespace headwise::dist {

std::unique_ptr<Group> MakeMpiGroup(const Launch& launch) {
  throw Error(ErrorCode::kUnsupported,
              {"ranks", "one process of a build without MPI",
               std::to_string(launch.size) + ", started by " + launch.launcher,
               "build where libopenmpi-dev is installed, or run it alone"});
}

bool HasMpi() { return false; }

}  // namespace headwise::dist
