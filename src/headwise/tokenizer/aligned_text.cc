// Alignment of a normalised text with its original. Door: aligned_text.h.
#include "headwise/tokenizer/aligned_text.h"

#include <algorithm>

#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

TextSpan AlignedText::SourceOf(Range range) const {
  if (!is_original()) {
    return {source_[range.begin].begin, source_[range.end - 1].end};
  }
  // A single byte of a character has the whole character as its source.
  while (range.begin > 0 && IsContinuation(text_[range.begin])) --range.begin;
  while (range.end < text_.size() && IsContinuation(text_[range.end])) {
    ++range.end;
  }
  return {base_ + static_cast<uint32_t>(range.begin),
          base_ + static_cast<uint32_t>(range.end)};
}

void AlignedText::Append(std::string_view text, TextSpan source) {
  CheckRoom(text.size());
  text_ += text;
  source_.resize(text_.size(), source);
}

void AlignedText::Append(const AlignedText& from, Range range) {
  if (from.is_original()) {
    for (size_t at = range.begin; at < range.end;) {
      const size_t bytes = CharacterAt(from.text_, at).bytes;
      const Range character{at, at + bytes};
      Append(from[character], from.SourceOf(character));
      at += bytes;
    }
    return;
  }
  CheckRoom(range.size());
  text_ += from[range];
  source_.insert(source_.end(), from.source_.begin() + range.begin,
                 from.source_.begin() + range.end);
}

void AlignedText::Append(char32_t character, TextSpan source) {
  CheckRoom(0);
  AppendUtf8(text_, character);
  source_.resize(text_.size(), source);
}

AlignedText AlignedText::Changed(const std::vector<CharacterChange>& changes,
                                 size_t skipped) const {
  AlignedText result = Blank();
  result.text_.reserve(text_.size());
  result.source_.reserve(text_.size());
  size_t at = 0;
  const auto skip = [&](size_t characters) {
    for (; characters > 0 && at < text_.size(); --characters) {
      at += CharacterAt(text_, at).bytes;
    }
  };
  skip(skipped);
  for (const CharacterChange& next : changes) {
    TextSpan source;
    if (next.change > 0 || at == text_.size()) {
      if (at > 0) source = SourceOf({at - 1, at});
    } else {
      source = SourceOf({at, at + 1});
      skip(1 + static_cast<size_t>(-next.change));
    }
    result.Append(next.value, source);
  }
  return result;
}

AlignedText AlignedText::Slice(Range range) const {
  AlignedText result((*this)[range], base_ + static_cast<uint32_t>(range.begin),
                     budget_);
  if (!is_original()) {
    result.source_.assign(source_.begin() + range.begin,
                          source_.begin() + range.end);
  }
  return result;
}

}  // namespace headwise
