// What tells two models apart: a hash over the names, types, shapes and bytes
// of every tensor of a checkpoint. Profiles carry it and refuse other models.
#pragma once

#include <filesystem>
#include <string>

#include "headwise/model/weights.h"

namespace headwise {

// 32 hexadecimal digits (XXH3, 128 bits). Reads every byte once. The order of
// tensors and how a checkpoint is cut into files do not matter.
std::string ModelHash(const WeightSource& weights);
// The hash of a checkpoint's folder or file.
std::string ModelHash(const std::filesystem::path& folder);

}  // namespace headwise
