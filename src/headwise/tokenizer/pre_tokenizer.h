// Where a normalised text is cut into the pieces ("words") that a model sees.
#pragma once

#include <memory>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/tokenizer/aligned_text.h"
#include "headwise/tokenizer/pattern.h"

namespace headwise {

// A text and the pieces of it that are left, in order, none empty.
struct PieceList {
  explicit PieceList(AlignedText whole) : text(std::move(whole)) {
    if (text.size() > 0) pieces.push_back({0, text.size()});
  }
  AlignedText text;
  std::vector<Range> pieces;
};

// Immutable; threads may share one.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void Cut(PieceList& list) const = 0;
};

// What becomes of the stretches that a pattern matched.
enum class MatchBehavior {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};

// The "pre_tokenizer" of a tokenizer.json; null gives one that does nothing.
// Throws Error(kCorrupt) or, for a type no reader knows, Error(kUnsupported).
std::unique_ptr<PreTokenizer> MakePreTokenizer(const JsonCursor& json);

// GPT-2's rule: words with a leading space, digits, punctuation, spaces.
extern const char* const kGpt2Expression;

struct ByteLevelOptions {
  bool add_prefix_space = false;
  bool use_regex = true;  // cut by kGpt2Expression first
};
// Cuts, then writes each byte as one printable character.
std::unique_ptr<PreTokenizer> MakeByteLevelPreTokenizer(
    ByteLevelOptions options);
// Cuts at spaces and around punctuation.
std::unique_ptr<PreTokenizer> MakeBertPreTokenizer();

}  // namespace headwise
