// A ranking in the terminal.
#pragma once

#include <cstddef>

#include "headwise/rank.h"

namespace headwise {

// `most` heads; 0: all. pairs: they were asked for.
void PrintRanking(const Ranking& ranking, size_t most, bool pairs);

}  // namespace headwise
