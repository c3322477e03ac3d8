// Stand-in for ../cuda/head_core.cu in a build without it. Door:
// ../implementation.h.
#include "headwise/ops/head_core/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<HeadCoreCall> kHeadCoreCuda =
    NotBuilt<HeadCoreCall>("cuda");

}  // namespace headwise
