// The text that a model is run on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace headwise
