// Stand-in for ../cuda/rank_agreement.cu in a build without it. Door:
// ../implementation.h.
#include "headwise/ops/not_built.h"
#include "headwise/ops/rank_agreement/implementation.h"

namespace headwise {

const Implementation<RanksCall> kRanksCuda = NotBuilt<RanksCall>("cuda");

}  // namespace headwise
