// Stand-in for ../cuda/pointwise.cu in a build without it. Door:
// ../implementation.h.
#include "headwise/ops/not_built.h"
#include "headwise/ops/pointwise/implementation.h"

namespace headwise {

const Implementation<PointwiseCall> kPointwiseCuda =
    NotBuilt<PointwiseCall>("cuda");

}  // namespace headwise
