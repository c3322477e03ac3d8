// Stand-in for ../cuda/lt.cc in a build without it. Door: ../implementation.h.
#include "headwise/ops/matmul/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<MatmulCall> kMatmulCudaLt =
    NotBuilt<MatmulCall>("cuda.lt");

}  // namespace headwise
