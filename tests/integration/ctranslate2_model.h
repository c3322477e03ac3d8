// Reads an encoder–decoder saved with CTranslate2's tensor names, for one
// small real model: pre-norm, ReLU, sinusoid positions from 1, embeddings · √d.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "headwise/model/model.h"

namespace headwise {

std::unique_ptr<Model> OpenCTranslate2(const std::filesystem::path& folder);

}  // namespace headwise
