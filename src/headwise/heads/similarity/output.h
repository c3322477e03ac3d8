// Comparing what heads give: linear CKA (Kornblith et al. 2019) between their
// outputs on the same tokens, which does not see rotations or scale.
#pragma once

#include <span>

#include "headwise/context.h"
#include "headwise/tensor/matrix.h"

namespace headwise {

// ⟨K_a, K_b⟩ / (‖K_a‖ ‖K_b‖) with K = Z Zᵀ of centred outputs. outputs: one
// [samples, E] f32 a head, E may differ. NaN for a head that does not vary.
Matrix LinearCka(Context& context, std::span<const Tensor> outputs);

}  // namespace headwise
