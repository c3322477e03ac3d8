// Stand-in for ../cuda/activation.cu in a build without it.
// Door: ../implementation.h.
#include "headwise/ops/activation/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<ActivationCall> kActivationCuda =
    NotBuilt<ActivationCall>("cuda");

}  // namespace headwise
