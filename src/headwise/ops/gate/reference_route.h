// The reference of a mixture's router.
#pragma once

#include "headwise/ops/gate/implementation.h"

namespace headwise {

void RouteByReference(const RouteCall& call);

}  // namespace headwise
