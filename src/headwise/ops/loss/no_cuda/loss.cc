// Stand-in for ../cuda/loss.cu in a build without it.
// Door: ../implementation.h.
#include "headwise/ops/loss/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<CrossEntropyCall> kCrossEntropyCuda =
    NotBuilt<CrossEntropyCall>("cuda");

}  // namespace headwise
