// The version of the library, and the translation unit that makes the layers
// one shared object. Door: include/headwise/version.h.
#include "headwise/version.h"

namespace headwise {

const char* Version() { return HEADWISE_VERSION_STRING; }
int VersionNumber() { return HEADWISE_VERSION; }

}  // namespace headwise
