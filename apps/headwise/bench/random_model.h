// Models of well-known shapes with random weights, made where they run: what a
// benchmark needs of a model that no disk here holds.
#pragma once

#include <memory>
#include <string>

#include "headwise/context.h"
#include "headwise/model/config.h"
#include "headwise/model/model.h"

namespace headwise::bench {

// "llama-7b, …", for help and errors.
std::string ShapeNames();

// A shape by its name, or of the config.json in a folder. Throws
// Error(kNotFound) listing the names.
ModelConfig NamedShape(const std::string& name);

// Weights in `type` on the context's device, which the model computes in. They
// repeat a stretch of random numbers. The model must go before the context.
std::unique_ptr<Model> RandomModel(Context& context, const ModelConfig& config,
                                   DType type);

}  // namespace headwise::bench
