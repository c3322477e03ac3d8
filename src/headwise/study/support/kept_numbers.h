// Numbers of a training that a study kept, so that an interrupted run goes on
// and runs side by side train nothing twice.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "headwise/base/json.h"

namespace headwise {

// What `make` gives, made here or kept in the folder by an earlier run that was
// asked for the same: `of` says all that the numbers depend on. keep empty: no
// folder, and always made.
std::vector<double> KeptNumbers(
    const std::filesystem::path& keep, const Json& of,
    const std::function<std::vector<double>()>& make);

}  // namespace headwise
