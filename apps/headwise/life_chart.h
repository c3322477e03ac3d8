// "A head's life" as a picture: heads in rows, steps of a training run in
// columns, one map a series.
#pragma once

#include <filesystem>
#include <vector>

#include "headwise/heads/importance/head_life.h"

namespace headwise {

// Nothing is written for an empty life.
void WriteLifeChart(const std::filesystem::path& file,
                    const std::vector<LifeMoment>& life);

}  // namespace headwise
