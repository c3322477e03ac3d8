// Files of JSON, one value a line.
#pragma once

#include <filesystem>
#include <functional>

#include "headwise/base/json.h"

namespace headwise {

// Calls `take` for each line; never where there is no such file. Throws
// Error(kCorrupt) naming the line where it is not JSON, or `take` finds it to
// be another. expected: of a line, for the message.
void ReadJsonLines(const std::filesystem::path& file, const char* expected,
                   const std::function<void(const Json&)>& take);

}  // namespace headwise
