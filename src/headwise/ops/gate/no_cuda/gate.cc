// Stand-in for ../cuda/gate.cu in a build without it. Door:
// ../implementation.h.
#include "headwise/ops/gate/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<GateCall> kGateCuda = NotBuilt<GateCall>("cuda");

}  // namespace headwise
