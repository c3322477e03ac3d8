// Stand-in for ../cuda/core_rows.cu in a build without it. Door:
// ../core_row.h.
#include "headwise/heads/profile/rows/core_row.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<CoreRowsCall> kCoreRowsCuda =
    NotBuilt<CoreRowsCall>("cuda");

}  // namespace headwise
