// Safetensors: named tensors in memory-mapped files, and a writer of them.
// Layout: 8 bytes little-endian header length, a JSON header, then the bytes
// of all tensors without gaps.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/base/mapped_file.h"
#include "headwise/tensor.h"

namespace headwise {

// "F32", "BF16", …: the name a safetensors header gives a type.
const char* SafetensorsName(DType type);

// Free-form notes of a file: `__metadata__`.
using Metadata = std::map<std::string, std::string>;

// The tensors of a checkpoint, one file or several shards. Views point into
// the mapped files and live as long as this object, also when it is moved.
// Immutable after Open, so any number of threads may read.
class Safetensors {
 public:
  // `path` is a file, a sharded index (*.index.json), or a folder that holds
  // model.safetensors or model.safetensors.index.json. Only headers are read.
  // Throws Error: kNotFound, kIo, kCorrupt (naming file and byte offset or
  // tensor), kUnsupported for element types and ranks that a view cannot have.
  static Safetensors Open(const std::filesystem::path& path);

  // By name, in the order of names. Shapes as in the file, row-major, dense.
  const std::map<std::string, ConstTensorView, std::less<>>& tensors() const {
    return tensors_;
  }
  const Metadata& metadata() const { return metadata_; }

  // The tensor called `name`, or a view without data.
  ConstTensorView Find(std::string_view name) const;
  // The tensor called `name`; throws Error(kNotFound).
  ConstTensorView At(std::string_view name) const;

  // Where it was opened, for messages.
  const std::string& where() const { return where_; }

 private:
  // One mapped file; copies hold tensors that the file does not align to
  // their element size (old writers did not pad the header).
  struct Shard {
    MappedFile file;
    std::vector<std::unique_ptr<std::byte[]>> copies;
  };
  struct Header;

  void OpenFile(const std::filesystem::path& path);
  void OpenIndex(const std::filesystem::path& path);
  static Header ReadHeader(const MappedFile& file, const std::string& where);
  void Add(std::string name, const ConstTensorView& view, Shard& shard);

  std::string where_;
  std::vector<Shard> shards_;
  std::map<std::string, ConstTensorView, std::less<>> tensors_;
  Metadata metadata_;
};

struct NamedTensor {
  std::string name;
  ConstTensorView view;  // dense, row-major, on the host
};

// Writes a file whole or not at all. The bytes depend on the tensors and the
// metadata only, not on their order: larger element types first, so that each
// tensor is aligned, then by name. Throws Error(kInvalidArgument) for repeated
// or reserved names and views that are not dense.
void WriteSafetensors(const std::filesystem::path& path,
                      std::vector<NamedTensor> tensors,
                      const Metadata& metadata = {});

}  // namespace headwise
