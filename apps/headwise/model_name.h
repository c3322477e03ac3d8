// What a model is called in titles.
#pragma once

#include <filesystem>
#include <string>

namespace headwise {

// The last folder of its path.
inline std::string ModelName(const std::string& folder) {
  const auto path = std::filesystem::path(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace headwise
