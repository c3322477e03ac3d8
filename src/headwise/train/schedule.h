// The learning rate of each step, and what else changes with it.
#pragma once

#include <cstdint>

#include "headwise/train/config.h"

namespace headwise {

// step counts from 0. Rises linearly over the warm-up, then follows the
// configured curve; cosine ends at final_rate · rate with the last step.
double RateAt(const TrainConfig& config, int64_t step);

// The probability of a head to be dropped: constant, rising from 0 to the last
// step, or falling to 0 in the warm-up and rising from there.
double HeadDropoutAt(const TrainConfig& config, int64_t step);

}  // namespace headwise
