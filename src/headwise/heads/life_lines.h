// What every line of a file about heads in training must have: as many values
// as heads, and the heads of the line before.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "headwise/error.h"

namespace headwise {

inline void RequireOneEachHead(const std::string& what, size_t count,
                               const std::vector<std::string>& heads) {
  if (count == heads.size()) return;
  throw Error(
      ErrorCode::kCorrupt,
      {what, "one for each of " + std::to_string(heads.size()) + " heads",
       std::to_string(count), ""});
}

// Of moments read so far and the next.
template <typename Moment>
void RequireSameHeads(const std::vector<Moment>& life, const Moment& next) {
  if (life.empty() || life.back().heads == next.heads) return;
  throw Error(ErrorCode::kCorrupt,
              {"heads", "those of the step before", "others", ""});
}

}  // namespace headwise
