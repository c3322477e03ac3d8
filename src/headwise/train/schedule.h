// The learning rate of each step.
#pragma once

#include <cstdint>

#include "headwise/train/config.h"

namespace headwise {

// step counts from 0. Rises linearly over the warm-up, then follows the
// configured curve; cosine ends at final_rate · rate with the last step.
double RateAt(const TrainConfig& config, int64_t step);

}  // namespace headwise
