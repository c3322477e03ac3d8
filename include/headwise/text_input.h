// The text that a model is run on, and what files hold of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"

namespace headwise {

/// Text for a model: given itself, as files, or as token ids; one of the three.
struct TextInput {
  /// Documents themselves. Encoder–decoders: lines source<TAB>target.
  std::vector<std::string> texts = {};
  /// Files (.gz, .xz, .zst, JSON lines with "text" too), folders, or "-".
  std::vector<std::string> files = {};
  /// Rows as the model reads them: nothing is added around.
  std::vector<std::vector<int32_t>> ids = {};
  /// Tokens of a window; 0: what suits the work (losses and rankings 256,
  /// else 512, for profiles of encoders 128), or what the model knows.
  int64_t context = 0;
  /// Stop after so many tokens, at the end of a window (ids are cut there);
  /// 0: read everything; nothing: what suits the work (ids and profiles
  /// everything, effects of composition 256, all else 8192).
  std::optional<int64_t> tokens = {};

  static TextInput Of(std::string text) { return {.texts = {std::move(text)}}; }
  static TextInput Files(std::vector<std::string> paths) {
    return {.files = std::move(paths)};
  }
  static TextInput Ids(std::vector<int32_t> row) {
    return {.ids = {std::move(row)}};
  }
  bool empty() const { return texts.empty() && files.empty() && ids.empty(); }

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("context", self.context,
          "tokens of a window; 0: what suits the work (losses and rankings "
          "256, profiles of encoders 128, else 512), or what the model knows",
          AtLeast(0));
    visit(
        "tokens", self.tokens,
        "stop after so many tokens, at the end of a window; 0: read everything",
        AtLeast(0));
  }
};

/// A document as a file holds it.
struct TextDocument {
  std::string name = {};  ///< "novel.txt", "news.jsonl:17"
  std::string text = {};
};

/// The documents of files, as TextInput::files names them, each whole: a text
/// that is cut has other tokens at the cut. Throws Error: kUnsupported for more
/// than `most_bytes` of text; kNotFound, kIo, kCorrupt, and kInvalidArgument
/// for bytes that are no UTF-8 text.
HEADWISE_API std::vector<TextDocument> ReadTexts(
    const std::vector<std::string>& files, uint64_t most_bytes);
/// The first document of a file. Throws as ReadTexts does.
HEADWISE_API std::string ReadFirstText(const std::string& file);

/// The lines of a file, without their ends. Throws Error: kNotFound, kIo;
/// kInvalidArgument for bytes that are no UTF-8 text.
HEADWISE_API std::vector<std::string> ReadLines(
    const std::filesystem::path& file);

/// Sequences of token ids from a safetensors file.
struct IdRows {
  std::vector<std::vector<int32_t>> rows = {};  ///< without padding
  int64_t width = 0;                ///< positions of a row in the file
  std::vector<int64_t> first = {};  ///< position of each row's first token
};

/// The tensor `ids` [sequences, tokens] without what the tensor `mask` of that
/// shape, if there is one, leaves out; both integers. Throws
/// Error(kInvalidArgument) for other shapes and types, for no sequences, for
/// padding between tokens, and for sequences of fewer than `least` tokens.
HEADWISE_API IdRows ReadIdRows(const std::filesystem::path& file,
                               const char* ids = "input_ids",
                               const char* mask = "attention_mask",
                               int64_t least = 1);
/// TextInput::ids: input_ids without what attention_mask leaves out. Throws as
/// ReadIdRows does, for sequences of fewer than two tokens and for ids outside
/// [0, vocabulary).
HEADWISE_API std::vector<std::vector<int32_t>> ReadIds(
    const std::filesystem::path& file, int64_t vocabulary);

}  // namespace headwise
