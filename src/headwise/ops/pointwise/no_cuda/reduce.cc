// Stand-in for ../cuda/reduce.cu in a build without it. Door:
// ../implementation.h.
#include "headwise/ops/not_built.h"
#include "headwise/ops/pointwise/implementation.h"

namespace headwise {

const Implementation<PointwiseCall> kPointwiseCudaReduce =
    NotBuilt<PointwiseCall>("cuda.reduce");

}  // namespace headwise
