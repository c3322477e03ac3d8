// Writing models for other programs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/tensor.h"

namespace headwise {

enum class ExportTarget : uint8_t {
  kHuggingFace,  ///< a folder for transformers
  kGguf,         ///< a file for llama.cpp
  kOnnx,         ///< a file for ONNX Runtime
};
constexpr std::array<const char*, 3> FieldWords(ExportTarget) {
  return {"huggingface", "gguf", "onnx"};
}

/// "huggingface", "gguf", "onnx". Throws Error(kInvalidArgument).
HEADWISE_API ExportTarget ParseExportTarget(std::string_view word);

/// The files that `headwise export` wrote.
struct ExportJob {
  ExportTarget to = ExportTarget::kHuggingFace;
  std::filesystem::path out = {};  ///< a folder, or a file
  std::optional<DType> type = {};  ///< type of weights; nothing: as stored
  /// kHuggingFace: the shapes of the original, with zeros for heads that left.
  bool twin = false;
  bool tokenizer = true;  ///< kGguf: false writes weights alone, for ids
  bool force = false;     ///< replace what is at out

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("to", self.to,
          "program that reads it: transformers, llama.cpp or ONNX Runtime");
    visit("out", self.out,
          "folder (huggingface) or file (gguf, onnx) to write");
    visit("twin", self.twin,
          "write the shapes of the original, with zeros for heads that were "
          "removed (huggingface)");
    visit("tokenizer", self.tokenizer,
          "write the tokenizer too; gguf can do without, for ids");
    visit("force", self.force,
          "replace what is at out: a file, or a folder with a model and "
          "nothing else");
  }
};

/// Writes the model of a folder, pruned or not, whole or not at all; returns
/// the architecture that it is called there. Throws Error: as Transformer does
/// for the folder; kInvalidArgument for what is there and not to be replaced,
/// and for choices that the target does not know; kUnsupported for a model that
/// the target would not run as we do.
HEADWISE_API std::string Export(const std::filesystem::path& folder,
                                const ExportJob& job);

}  // namespace headwise
