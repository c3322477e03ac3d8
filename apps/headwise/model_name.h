// The name of a model in titles.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace headwise {

// The folder's own name, whatever the form of its path (".", "gpt2/", a link).
inline std::string ModelName(const std::string& folder) {
  std::error_code unknown;
  auto path = std::filesystem::weakly_canonical(folder, unknown);
  if (unknown) path = std::filesystem::path(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace headwise
