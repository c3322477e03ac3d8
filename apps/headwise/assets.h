// The assets of the program: a model and a text for the demo.
#pragma once

#include <filesystem>

namespace headwise {

// A file or folder of assets/: below $HEADWISE_ASSETS, else beside the
// installed program (../share/headwise), else in the checkout that the program
// was built from. Throws Error(kNotFound) naming the places.
std::filesystem::path Asset(const std::filesystem::path& name);

}  // namespace headwise
