// What a launcher of many processes (mpirun, srun) says of this one.
#pragma once

#include <functional>

#include "headwise/work_group.h"

namespace headwise::dist {

// As FindLaunch() does; `lookup` gives a variable's text or null, as getenv
// does.
Launch LaunchBy(const std::function<const char*(const char*)>& lookup);

}  // namespace headwise::dist
