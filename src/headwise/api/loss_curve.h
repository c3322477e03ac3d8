// The losses of a training run as a picture.
#pragma once

#include <filesystem>

#include "headwise/train/checkpoints.h"

namespace headwise {

// An SVG of the losses so far; of many steps, means over equal stretches.
void WriteLossCurve(const std::filesystem::path& file,
                    const TrainingRecord& record);

}  // namespace headwise
