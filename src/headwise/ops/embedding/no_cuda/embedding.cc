// Stand-in for ../cuda/embedding.cu in a build without it.
// Door: ../implementation.h.
#include "headwise/ops/embedding/implementation.h"
#include "headwise/ops/not_built.h"

namespace headwise {

const Implementation<EmbeddingCall> kEmbeddingCuda =
    NotBuilt<EmbeddingCall>("cuda");

}  // namespace headwise
