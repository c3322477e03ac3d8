// Tokens that an encoder with a masked-word head predicts for a mask.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/fill.h"
#include "headwise/model/model.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// [MASK] or <mask>, whichever the tokenizer has.
std::optional<int32_t> MaskToken(const Tokenizer& tokenizer);

// The `most` likeliest tokens at every place of `mask` in ids, each seen from
// all the others; their texts stay empty. Throws Error: kUnsupported for a
// model that is no encoder with a vocabulary head, kInvalidArgument where there
// is no mask.
std::vector<FilledMask> FillMasks(Context& context, const Model& model,
                                  std::span<const int32_t> ids, int32_t mask,
                                  int64_t most, const HookList& hooks = {});

}  // namespace headwise
