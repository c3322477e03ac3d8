// A writer of GGUF (version 3), the file of llama.cpp and its kin: typed
// metadata, then the tensors, little-endian, each at a multiple of 32 bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/tensor.h"

namespace headwise {

// Numbers that its types cannot hold throw Error(kUnsupported).
//
// Collects what a file is to hold; Write makes the tensors one after the
// other, so that one of them is in memory at a time.
class GgufWriter {
 public:
  void AddCount(std::string_view key, int64_t value);  // u32
  void AddNumber(std::string_view key, float value);
  void AddFlag(std::string_view key, bool value);
  void AddText(std::string_view key, std::string_view value);
  void AddCounts(std::string_view key, std::span<const int64_t> values);  // i32
  void AddNumbers(std::string_view key, std::span<const float> values);
  void AddTexts(std::string_view key, std::span<const std::string> values);

  // f32, f16, bf16, q8_0 or mxfp4. shape as ours, the slowest first; GGUF
  // turns it around. `make` gives the elements: a dense tensor of this type and
  // shape, whose bytes are written as they are. Throws Error(kInvalidArgument)
  // for other types, repeated names, and rows that are not whole blocks.
  void AddTensor(std::string name, DType type, const Shape& shape,
                 std::function<Tensor()> make);

  // Whole or not at all. Throws as AtomicFile does, and what `make` throws.
  void Write(const std::filesystem::path& path) const;

 private:
  struct Planned {
    std::string name;
    DType type;
    Shape shape;
    uint64_t bytes = 0;
    std::function<Tensor()> make;
  };
  void BeginValue(std::string_view key, uint32_t type);

  std::string metadata_;  // as the file has it
  uint64_t values_ = 0;
  std::vector<Planned> tensors_;
};

}  // namespace headwise
