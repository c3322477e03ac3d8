// What a head of classes says of texts or of their tokens.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/model/task_head.h"
#include "headwise/nn/hooks.h"
#include "headwise/tensor.h"

namespace headwise {

// ids: texts end to end. f32 on the host, [texts, classes], or [tokens,
// classes] of a head that looks at each token.
Tensor ClassLogits(Context& context, const Model& model, const TaskHead& head,
                   std::span<const int32_t> ids,
                   std::span<const int64_t> lengths, HookList hooks = {});

}  // namespace headwise
