// Safetensors: named tensors in memory-mapped files, and a writer of them.
// Layout: 8 bytes little-endian header length, a JSON header, then the bytes
// of all tensors without gaps.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/base/mapped_file.h"
#include "headwise/tensor.h"

namespace headwise {

// "F32", "BF16", …: the name a safetensors header gives a type.
const char* SafetensorsName(DType type);
// False for encodings that the format does not have: SafetensorsName is "?".
bool IsSafetensorsType(DType type);

// Free-form notes of a file: `__metadata__`.
using Metadata = std::map<std::string, std::string>;

// The tensors of a checkpoint, one file or several shards. Views point into
// the mapped files and live as long as this object, also when it is moved.
// Any number of threads may read.
class Safetensors {
 public:
  // `path` is a file, a sharded index (*.index.json), or a folder that holds
  // one of model.safetensors or pytorch_model.bin (torch_file.h). Only headers
  // are read. Throws Error: kNotFound, kIo, kCorrupt (naming file and byte or
  // tensor), kUnsupported for element types and ranks that a view cannot have.
  static Safetensors Open(const std::filesystem::path& path);

  // By name, in the order of names. Shapes as in the file, row-major, dense.
  // Old writers did not pad the header: data may lie at any address
  // (tensor/unaligned.h).
  const std::map<std::string, ConstTensorView, std::less<>>& tensors() const {
    return tensors_;
  }
  const Metadata& metadata() const { return metadata_; }

  // The tensor called `name` as tensors() has it, or a view without data.
  ConstTensorView Stored(std::string_view name) const;
  // The same, aligned: one that is not is copied when it is first asked for.
  ConstTensorView Find(std::string_view name) const;
  // The same; throws Error(kNotFound) where there is none.
  ConstTensorView At(std::string_view name) const;

  // Of its files, as they were when they were opened.
  std::vector<FileIdentity> Identities() const;

  // Where it was opened, for messages.
  const std::string& where() const { return where_; }

 private:
  struct Header;
  // Aligned copies, by where the file has them.
  struct Copies {
    std::mutex mutex;
    std::map<const void*, std::unique_ptr<std::byte[]>> bytes;
  };

  void OpenFile(const std::filesystem::path& path);
  void OpenIndex(const std::filesystem::path& path);
  static Header ReadHeader(const MappedFile& file, const std::string& where);

  std::string where_;
  std::vector<MappedFile> shards_;
  std::unique_ptr<Copies> copies_ = std::make_unique<Copies>();
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
// or reserved names and views that are not dense, and Error(kUnsupported) for
// types that the format does not have.
void WriteSafetensors(const std::filesystem::path& path,
                      std::vector<NamedTensor> tensors,
                      const Metadata& metadata = {});

}  // namespace headwise
