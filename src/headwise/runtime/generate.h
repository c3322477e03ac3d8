// Text that continues a prompt, token by token, or a translation by beam.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/generate.h"
#include "headwise/model/model.h"
#include "headwise/nn/hooks.h"

namespace headwise {

// New tokens after the prompt (decoder-only) or of the target (encoder–
// decoder, prompt being the source), without the end token. A full context
// ends the text too. An encoder–decoder's padding is never chosen, as in
// transformers.
std::vector<int32_t> Generate(Context& context, const Model& model,
                              std::span<const int32_t> prompt,
                              const GenerateJob& job,
                              const HookList& hooks = {});

// Greedy translations by an encoder–decoder of many sources at once, each as
// Generate gives it: an accelerator has little to do for one. Without a cache:
// every step reads again what was said so far.
std::vector<std::vector<int32_t>> TranslateTogether(
    Context& context, const Model& model,
    std::span<const std::vector<int32_t>> sources, int64_t max_tokens);

}  // namespace headwise
