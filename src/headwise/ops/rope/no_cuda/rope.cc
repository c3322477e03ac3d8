// Stand-in for ../cuda/rope.cu in a build without it.
// Door: ../implementation.h.
#include "headwise/ops/not_built.h"
#include "headwise/ops/rope/implementation.h"

namespace headwise {

const Implementation<RopeCall> kRopeCuda = NotBuilt<RopeCall>("cuda");

}  // namespace headwise
