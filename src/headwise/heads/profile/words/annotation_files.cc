// Door: annotation_files.h.
#include "headwise/heads/profile/words/annotation_files.h"

#include <algorithm>
#include <system_error>

#include "headwise/error.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> FilesIn(const fs::path& folder,
                              const std::string& ending) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code unknown;
    if (name.starts_with('.') || !name.ends_with(ending) ||
        !at->is_regular_file(unknown)) {
      continue;
    }
    files.push_back(at->path());
  }
  if (error) {
    throw Error(ErrorCode::kIo, {folder.string(), "a folder that can be read",
                                 error.message(), ""});
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<fs::path> AnnotationFiles(const fs::path& path,
                                      const std::string& ending) {
  std::error_code unknown;
  if (!fs::is_directory(path, unknown)) return {path};
  std::vector<fs::path> files = FilesIn(path, ending);
  if (files.empty()) {
    throw Error(ErrorCode::kNotFound,
                {path.string(),
                 ending.empty() ? "files" : "files that end in " + ending,
                 "none in this folder", ""});
  }
  return files;
}

}  // namespace headwise
