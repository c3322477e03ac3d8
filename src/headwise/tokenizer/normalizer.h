// What happens to a text before it is cut: Unicode forms, case, accents.
#pragma once

#include <memory>

#include "headwise/base/json.h"
#include "headwise/tokenizer/aligned_text.h"

namespace headwise {

// Immutable; threads may share one.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual AlignedText Normalize(AlignedText text) const = 0;
};

// The "normalizer" of a tokenizer.json; null gives one that does nothing.
// Throws Error(kCorrupt) or, for a type no reader knows, Error(kUnsupported).
std::unique_ptr<Normalizer> MakeNormalizer(const JsonCursor& json);

// Parts shared by the file that makes normalizers from JSON and the readers
// of plain vocabularies.
struct BertNormalizerOptions {
  bool clean_text = true;            // drop control characters
  bool handle_chinese_chars = true;  // a space on both sides of each
  bool strip_accents = true;
  bool lowercase = true;
};
std::unique_ptr<Normalizer> MakeBertNormalizer(BertNormalizerOptions options);
// Puts `text` before every text that is not empty.
std::unique_ptr<Normalizer> MakePrependNormalizer(std::string text);

}  // namespace headwise
