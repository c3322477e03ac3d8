// "A head's life" as a picture: the strongest heads as lines, then heads in
// rows and steps of a training run in columns, one map a series.
#pragma once

#include <filesystem>
#include <vector>

#include "headwise/heads/importance/head_life.h"

namespace headwise {

// `life` has at least one moment.
void WriteLifeChart(const std::filesystem::path& file,
                    const std::vector<LifeMoment>& life);

}  // namespace headwise
