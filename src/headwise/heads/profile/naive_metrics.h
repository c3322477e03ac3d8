// Every metric of one head on one sequence by its definition, from dense rows
// in double: what the observer is held against. Test only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "headwise/heads/profile/notes.h"

namespace headwise {

// Probabilities of query i over all keys; 0 where it does not look.
using DenseRow = std::function<std::vector<double>(int64_t i)>;

std::map<std::string, double> NaiveMetrics(const DenseRow& row,
                                           const TokenNotes& notes, bool causal,
                                           int64_t min_visible);

}  // namespace headwise
