// The version of Headwise, at compile time and at run time.
#pragma once

#include "headwise/export.h"

#define HEADWISE_VERSION "0.1.0"

namespace headwise {

// The version of the library that is linked, e.g. "0.1.0".
HEADWISE_API const char* Version();

}  // namespace headwise
