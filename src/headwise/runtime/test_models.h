// For tests: models of fresh weights that, like those of a folder, are not
// trained, so that they live on the device.
#pragma once

#include <memory>

#include "headwise/model/model.h"
#include "headwise/tensor.h"

namespace headwise::runtime_test {

std::unique_ptr<Model> FrozenModel(const ModelConfig& config,
                                   DType type = DType::kF32);

}  // namespace headwise::runtime_test
