// Finding added tokens. Door: added_tokens.h.
#include "headwise/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

bool IsInsideWord(std::string_view text, Range found) {
  return (found.begin > 0 &&
          IsWordCharacter(CharacterBefore(text, found.begin).value)) ||
         (found.end < text.size() &&
          IsWordCharacter(CharacterAt(text, found.end).value));
}

// The range with the spaces that the token takes along, but none before
// `done`, which belongs to the token before.
Range WithSpaces(std::string_view text, Range found, size_t done,
                 const AddedToken& token) {
  while (token.lstrip && found.begin > done) {
    const CodePoint last = CharacterBefore(text, found.begin);
    if (!IsWhitespace(last.value)) break;
    found.begin -= last.bytes;
  }
  while (token.rstrip && found.end < text.size()) {
    const CodePoint next = CharacterAt(text, found.end);
    if (!IsWhitespace(next.value)) break;
    found.end += next.bytes;
  }
  return found;
}

}  // namespace

void AddedTokens::Add(AddedToken token, const Normalizer& normalizer) {
  if (token.content.empty()) return;
  const size_t index = tokens_.size();
  by_id_[token.id] = index;
  by_content_[token.content] = index;
  size_ = std::max(size_, token.id + 1);
  if (token.normalized) {
    const WorkBudget budget(token.content.size());
    const AlignedText normal =
        normalizer.Normalize(AlignedText(token.content, 0, &budget));
    CheckSought(normal.text(), "added token, normalised");
    normalized_.Add(normal.text(), static_cast<int32_t>(index));
  } else {
    plain_.Add(token.content, static_cast<int32_t>(index));
  }
  tokens_.push_back(std::move(token));
}

std::vector<AddedSegment> AddedTokens::Cut(std::string_view text,
                                           bool normalized) const {
  const ByteTrie& trie = normalized ? normalized_ : plain_;
  std::vector<AddedSegment> segments;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;  // of the longest token here
    int32_t index = ByteTrie::kNone;
    trie.ForEachPrefix(text.substr(at), [&](size_t prefix, int32_t value) {
      length = prefix;
      index = value;
    });
    if (index == ByteTrie::kNone) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    const Range found{at, at + length};
    at = found.end;
    if (token.single_word && IsInsideWord(text, found)) continue;
    const Range whole = WithSpaces(text, found, done, token);
    if (whole.begin > done) segments.push_back({{done, whole.begin}, kNoToken});
    segments.push_back({whole, token.id});
    done = at = whole.end;
  }
  if (done < text.size()) segments.push_back({{done, text.size()}, kNoToken});
  return segments;
}

const AddedToken* AddedTokens::Find(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::Find(const std::string& content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace headwise
