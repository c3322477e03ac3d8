// What cuda.sm90 reads through Hopper's copy engine (TMA), and how.
#pragma once

#include <cuda.h>

#include <string>

#include "headwise/ops/attention/call.h"

namespace headwise::attention_cuda {

// Empty, or why the copy engine cannot read a view of a forward or backward
// call that has been found aligned (why_not.h).
Reason WhyNotCopied(const AttentionCall& call);

// A view [B, P, H, D] to be read in boxes of `rows` × 64 columns.
CUtensorMap MapOf(const ConstTensorView& view, DType type, int rows);

}  // namespace headwise::attention_cuda
