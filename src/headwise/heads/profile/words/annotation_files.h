// Where annotated material lies: one file, or a folder of them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace headwise {

// `path` itself, or where it is a folder its files in the order of their names,
// hidden ones left out; of those only the ones that end in `ending`, unless it
// is "". Throws Error(kNotFound) for a folder without any, Error(kIo) for one
// that cannot be read.
std::vector<std::filesystem::path> AnnotationFiles(
    const std::filesystem::path& path, const std::string& ending);

}  // namespace headwise
