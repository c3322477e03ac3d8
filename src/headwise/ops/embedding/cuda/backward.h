// The backward of cuda's embedding.
#pragma once

#include "headwise/context.h"
#include "headwise/ops/embedding/embedding.h"

namespace headwise::cuda {

// The call has been validated and is one that the entry takes. Ids outside the
// table add nothing.
void EmbeddingBackward(Context& context, const ConstTensorView& ids,
                       const EmbeddingGrads& grads);

}  // namespace headwise::cuda
