// Stand-in for ../cuda/dropout.cu in a build without it.
// Door: ../implementation.h.
#include "headwise/ops/dropout/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<DropoutCall> kDropoutCuda = NotBuilt<DropoutCall>("cuda");

}  // namespace headwise
