// Models that ranks share. Door: include/headwise/work_group.h.
#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "headwise/api/state.h"
#include "headwise/model/file_hash.h"
#include "headwise/tensor.h"
#include "headwise/tokenizer/text_source.h"
#include "headwise/work_group.h"

namespace headwise {
namespace {

using Path = std::filesystem::path;

// The configuration and the tokenizer: what lies in a model's folder besides
// its weights, which have a hash of their own.
std::vector<Path> SmallFiles(const Path& folder) {
  constexpr std::array<std::string_view, 4> kKinds = {".json", ".txt", ".model",
                                                      ".spm"};
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string kind = entry.path().extension().string();
    if (entry.is_regular_file() &&
        std::ranges::find(kKinds, kind) != kKinds.end()) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

void ShareWork(Transformer& model, WorkGroup& group) {
  if (group.size() > 1) {
    const RunField fields[] = {
        {"model", "weights of hash " + model.hash()},
        {"configuration and tokenizer", HashFiles(SmallFiles(model.folder()))},
        {"type", Name(model.type())}};
    group.RequireSame(fields);
  }
  model.state().group = &group.group();
}

std::string DescribeFiles(const std::vector<std::string>& paths) {
  std::vector<Path> files;
  for (const std::string& path : paths) {
    std::error_code unknown;
    const auto kind = std::filesystem::status(path, unknown).type();
    if (kind == std::filesystem::file_type::regular ||
        kind == std::filesystem::file_type::directory) {
      for (Path& file : ListFiles({path})) files.push_back(std::move(file));
    } else if (kind == std::filesystem::file_type::not_found) {
      return path + ", which is not there";
    } else {
      return path;
    }
  }
  return HashFiles(files);
}

}  // namespace headwise
