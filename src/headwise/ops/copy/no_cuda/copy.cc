// Stand-in for ../cuda/copy.cu in a build without it. Door:
// ../implementation.h.
#include "headwise/ops/copy/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<CopyCall> kCopyCuda = NotBuilt<CopyCall>("cuda");

}  // namespace headwise
