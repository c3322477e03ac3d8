// The files of a model's folder, by name: what belongs to a model and goes
// where it goes, and what is somebody else's.
//
// A folder may come from anywhere, so a file of it is read only as what its
// name says. Its links are another matter: one to a key or a password file
// would carry that into whatever is made of the model. Hugging Face's cache,
// though, is nothing but links, and weights are linked to other disks. So:
//   - config.json and weights are followed anywhere: they have been read as a
//     configuration and as safetensors, which no key is;
//   - other files are followed within the folder, and into such a cache
//     (models--NAME/blobs/HASH): elsewhere a link is refused;
//   - they are plain files of at most kMostBytesBeside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace headwise {

inline constexpr int64_t kMostBytesBeside = int64_t{1} << 30;

// config.json, safetensors weights and their index, a tokenizer's files, what
// generation goes by, licences and README.md.
bool IsModelFile(const std::filesystem::path& file);
// Those of them that are for people.
bool IsProse(const std::filesystem::path& file);

// The weights as Safetensors::Open takes them, with an index that names them.
// Throws as it does.
std::vector<std::filesystem::path> WeightFiles(
    const std::filesystem::path& folder);

// What lies beside configuration and weights. Throws Error(kInvalidArgument)
// for a link that leads elsewhere or a file that is too large; what has a
// model's name and is no file is passed by.
std::vector<std::filesystem::path> FilesBeside(
    const std::filesystem::path& folder);

}  // namespace headwise
