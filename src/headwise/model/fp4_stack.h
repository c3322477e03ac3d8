// Stacks of matrices in mxfp4 as gpt-oss stores them: NAME_blocks [E, rows,
// n / 32, 16], two numbers a byte, the first in its low half, and NAME_scales
// [E, rows, n / 32], the exponents of the blocks with a bias of 127.
#pragma once

#include <memory>
#include <string>

#include "headwise/model/weights.h"

namespace headwise {

// Whether the weights hold NAME so.
bool HasFp4Stack(const WeightSource& weights, const std::string& name);

// NAME [experts, rows, columns] in bf16, which holds such numbers exactly;
// `made` keeps it. Throws Error(kCorrupt) for blocks or scales of other shapes.
Parameter UnpackFp4Stack(const WeightSource& weights, const std::string& name,
                         const Shape& shape,
                         std::shared_ptr<const Tensor>& made);

}  // namespace headwise
