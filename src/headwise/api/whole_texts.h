// Texts that are run whole, each a sequence: for vectors and classes of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "headwise/model.h"

namespace headwise {

struct WholeTexts {
  std::vector<std::vector<int32_t>> ids;  // as the model reads them
  int64_t cut = 0;                        // texts that were too long
};

// most: tokens of a text, those around it included; what is beyond is cut off.
// Throws Error(kInvalidArgument) for a text without a token.
WholeTexts ReadWholeTexts(const Transformer& model,
                          std::span<const std::string> texts,
                          const std::string& prompt, int64_t most);

// Texts [begin, end) that run together, end to end.
struct TextBatch {
  size_t begin = 0, end = 0;
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
};
void ForBatches(const WholeTexts& texts,
                const std::function<void(const TextBatch&)>& use);

}  // namespace headwise
