// Door: vocabulary.h.
#include "headwise/tokenizer/vocabulary.h"

#include <algorithm>
#include <utility>

namespace headwise {

Vocabulary Vocabulary::FromJson(const JsonCursor& json) {
  if (!json.value().is_object()) json.Fail("an object of ids");
  Vocabulary vocabulary;
  vocabulary.ids_.reserve(json.value().size());
  vocabulary.tokens_.reserve(json.value().size());
  for (const auto& [token, id] : json.value().items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kMaxTokenId) {
      JsonCursor(id, json.where() + ": " + token).Int(0, kMaxTokenId);
    }
    vocabulary.Add(token, id.get<TokenId>());
  }
  return vocabulary;
}

void Vocabulary::Add(std::string token, TokenId id) {
  const auto entry = ids_.insert_or_assign(std::move(token), id).first;
  tokens_[id] = &entry->first;
  size_ = std::max(size_, id + 1);
}

TokenId Vocabulary::FindByte(unsigned char byte) const {
  constexpr char kDigits[] = "0123456789ABCDEF";
  const char name[] = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15],
                       '>'};
  return Find({name, sizeof(name)});
}

}  // namespace headwise
