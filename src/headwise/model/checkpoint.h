// A model on disk: a folder with config.json and safetensors weights, as
// Hugging Face writes it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "headwise/model/config.h"
#include "headwise/model/model.h"

namespace headwise {

// config.json of a model's folder. Throws Error: kNotFound when there is no
// such folder or file, kCorrupt naming the key, kUnsupported for an unknown
// model_type.
ModelConfig OpenConfig(const std::filesystem::path& folder);

// The model. Weights are mapped, not read: what a run does not touch is never
// loaded.
std::unique_ptr<Model> OpenModel(const std::filesystem::path& folder);

}  // namespace headwise
