// Stand-in for ../cuda/head_rows.cu in a build without it. Door:
// ../implementation.h.
#include "headwise/heads/profile/rows/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<HeadRowsCall> kHeadRowsCuda =
    NotBuilt<HeadRowsCall>("cuda");

}  // namespace headwise
