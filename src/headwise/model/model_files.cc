// Door: model_files.h.
#include "headwise/model/model_files.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "config.json";
constexpr std::string_view kWeightFiles[] = {
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "pytorch_model.bin.index.json"};
constexpr std::string_view kFilesBeside[] = {"added_tokens.json",
                                             "chat_template.json",
                                             "chat_template.jinja",
                                             "generation_config.json",
                                             "merges.txt",
                                             "source.spm",
                                             "special_tokens_map.json",
                                             "target.spm",
                                             "tokenizer.json",
                                             "tokenizer_config.json",
                                             "vocab.bpe",
                                             "vocab.json",
                                             "vocab.txt"};
constexpr std::string_view kProseFiles[] = {
    "COPYING", "LICENCE",    "LICENSE",   "LICENSE.md",   "LICENSE.txt",
    "NOTICE",  "NOTICE.txt", "README.md", "USE_POLICY.md"};

bool HoldsName(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "model-00001-of-00002.safetensors", "pytorch_model-00001-of-00002.bin"
bool IsShard(std::string_view name) {
  const auto between = [&](std::string_view start, std::string_view end) {
    if (!name.starts_with(start) || !name.ends_with(end) ||
        name.size() <= start.size() + end.size()) {
      return false;
    }
    const std::string_view number =
        name.substr(start.size(), name.size() - start.size() - end.size());
    return number.find_first_not_of("0123456789-of") == number.npos;
  };
  return between("model-", ".safetensors") || between("pytorch_model-", ".bin");
}

// Tokenizers that have names of their own: SentencePiece's, llama2.c's.
bool IsNamedTokenizer(const fs::path& file) {
  const std::string name = file.filename().string();
  return file.extension() == ".model" ||
         (file.extension() == ".bin" && name.starts_with("tok"));
}

bool IsBeside(const fs::path& file) {
  return HoldsName(kFilesBeside, file.filename().string()) || IsProse(file) ||
         IsNamedTokenizer(file);
}

// models--NAME/blobs/HASH, of 40 or 64 digits.
bool IsCached(const fs::path& real) {
  const std::string hash = real.filename().string();
  const fs::path blobs = real.parent_path();
  return (hash.size() == 40 || hash.size() == 64) &&
         hash.find_first_not_of("0123456789abcdef") == hash.npos &&
         blobs.filename() == "blobs" &&
         blobs.parent_path().filename().string().starts_with("models--");
}

void RequireOwn(const fs::path& file, const fs::path& folder) {
  std::error_code code;
  const fs::path real = fs::canonical(file, code);
  const fs::path home = fs::canonical(folder, code);
  if (real.parent_path() != home && !IsCached(real)) {
    throw Error(ErrorCode::kInvalidArgument,
                {file.string(), "a file of the model's own folder",
                 "a link to " + real.string(),
                 "put the file in its place, or take the link away"});
  }
  const uintmax_t bytes = fs::file_size(real, code);
  if (!code && bytes <= static_cast<uintmax_t>(kMostBytesBeside)) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      {file.string(), "at most " + std::to_string(kMostBytesBeside) + " bytes",
       code ? code.message() : std::to_string(bytes), ""});
}

}  // namespace

bool IsProse(const fs::path& file) {
  return HoldsName(kProseFiles, file.filename().string());
}

bool IsModelFile(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == kConfigFile || HoldsName(kWeightFiles, name) ||
         IsShard(name) || IsBeside(file);
}

std::vector<fs::path> WeightFiles(const fs::path& folder) {
  const Safetensors opened = Safetensors::Open(folder);
  const fs::path first = opened.where();
  if (first.extension() != ".json") return {first};
  std::set<std::string> shards;
  const Json index = ReadJson(first);
  for (const auto& [name, file] : index["weight_map"].items()) {
    shards.insert(file.get<std::string>());
  }
  std::vector<fs::path> files = {first};
  for (const std::string& shard : shards) files.push_back(folder / shard);
  return files;
}

std::vector<fs::path> FilesBeside(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end;
       at.increment(code)) {
    std::error_code none;  // a link to nothing
    if (!IsBeside(at->path()) || !at->is_regular_file(none)) continue;
    RequireOwn(at->path(), folder);
    files.push_back(at->path());
  }
  if (code) {
    throw Error(ErrorCode::kIo, {folder.string(), "a folder that can be read",
                                 code.message(), ""});
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace headwise
