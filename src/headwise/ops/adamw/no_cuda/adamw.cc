// Stand-in for ../cuda/adamw.cu in a build without it.
// Door: ../implementation.h.
#include "headwise/ops/adamw/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<AdamWCall> kAdamWCuda = NotBuilt<AdamWCall>("cuda");

}  // namespace headwise
