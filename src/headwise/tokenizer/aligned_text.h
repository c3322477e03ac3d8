// A text under normalisation that remembers, for each of its bytes, which
// bytes of the original it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/tokenizer/tokenizer.h"
#include "headwise/tokenizer/work_budget.h"

namespace headwise {

// Bytes [begin, end) of the present (normalised) text.
struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// One character of a rewritten text, and how it follows from the old one:
// 0 takes the place of one old character, 1 is new beside the one before it,
// −n takes the place of one and swallows the n after it.
struct CharacterChange {
  char32_t value;
  int change;
};

class AlignedText {
 public:
  AlignedText() = default;
  // `text` as it stands in the original from byte `base` on. What rules make
  // of it is held against the budget, which must outlive it; null: no limit.
  AlignedText(std::string_view text, uint32_t base,
              const WorkBudget* budget = nullptr)
      : text_(text), base_(base), budget_(budget) {}

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  std::string_view operator[](Range range) const {
    return std::string_view(text_).substr(range.begin, range.size());
  }

  // The original bytes behind a range that is not empty: from the beginning of
  // the first character's source to the end of the last one's.
  TextSpan SourceOf(Range range) const;

  const WorkBudget* budget() const { return budget_; }

  // Rewriting: start from old.Blank(), append in order, done. Appending throws
  // Error(kUnsupported) beyond the budget.
  AlignedText Blank() const { return {{}, 0, budget_}; }
  void Append(std::string_view text, TextSpan source);
  void Append(const AlignedText& from, Range range);
  void Append(char32_t character, TextSpan source);

  // The text with its characters changed as told. Characters of the old text
  // before the first change (`skipped` of them) disappear.
  AlignedText Changed(const std::vector<CharacterChange>& changes,
                      size_t skipped = 0) const;

  // The text of one range alone.
  AlignedText Slice(Range range) const;

 private:
  // Before the first rewriting each byte stands for itself: no array then.
  bool is_original() const { return source_.empty(); }
  // Before so many bytes are added.
  void CheckRoom(size_t bytes) const {
    if (budget_ != nullptr) budget_->CheckBytes(text_.size() + bytes);
  }

  std::string text_;
  uint32_t base_ = 0;
  std::vector<TextSpan> source_;  // one per byte of text_, or empty
  const WorkBudget* budget_ = nullptr;
};

}  // namespace headwise
