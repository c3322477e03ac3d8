// Door: sanitized.h.
#include "headwise/base/sanitized.h"

namespace headwise {

bool IsSanitized() {
#ifdef HEADWISE_SANITIZED
  return true;
#else
  return false;
#endif
}

}  // namespace headwise
