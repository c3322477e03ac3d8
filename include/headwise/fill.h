// Words that an encoder puts in the place of [MASK].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"

namespace headwise {

class Transformer;  // model.h

struct FillJob {
  int64_t top = 5;  ///< the likeliest tokens of each mask

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("top", self.top, "words to show for each mask", AtLeast(1));
  }
};

struct MaskGuess {
  int32_t id = 0;
  double probability = 0;
  std::string token = {};  ///< as text, without the space before it
};

struct FilledMask {
  int64_t position = 0;                 ///< among the ids
  std::vector<MaskGuess> guesses = {};  ///< the likeliest first
};

struct FilledText {
  std::vector<int32_t> ids = {};  ///< as the model read them
  std::vector<FilledMask> masks = {};
};

/// The likeliest tokens at every mask of a text, each seen from all the others,
/// under the model's edits and hooks. `[MASK]` and `<mask>` both stand for the
/// tokenizer's own. Throws Error: kUnsupported for a model that is no encoder
/// with a vocabulary head, or a tokenizer without a mask; kInvalidArgument for
/// a text without one.
HEADWISE_API FilledText FillMasks(Transformer& model, std::string_view text,
                                  const FillJob& job = {});

}  // namespace headwise
