// Stand-in for ../cuda/head_sinks.cu in a build without it. Door:
// ../implementation.h.
#include "headwise/ops/head_sinks/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<HeadSinksCall> kHeadSinksCuda =
    NotBuilt<HeadSinksCall>("cuda");

}  // namespace headwise
