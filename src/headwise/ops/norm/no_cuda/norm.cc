// Stand-in for ../cuda/norm.cu in a build without it. Door:
// ../implementation.h.
#include "headwise/ops/norm/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<NormCall> kNormCuda = NotBuilt<NormCall>("cuda");

}  // namespace headwise
