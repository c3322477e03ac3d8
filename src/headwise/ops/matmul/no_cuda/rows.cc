// Stand-in for ../cuda/rows.cu in a build without it. Door:
// ../implementation.h.
#include "headwise/ops/matmul/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<MatmulCall> kMatmulCudaRows =
    NotBuilt<MatmulCall>("cuda.rows");

}  // namespace headwise
