// Door: vocabulary.h.
#include "headwise/tokenizer/vocabulary.h"

#include <algorithm>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

// Gaps are left where tokens were taken out or places kept free.
constexpr size_t kIdsPerToken = 4;
constexpr size_t kFreeIds = size_t{1} << 17;

}  // namespace

void CheckSought(std::string_view token, const std::string& where) {
  if (token.size() <= kMaxSoughtBytes) return;
  throw Error(
      ErrorCode::kCorrupt,
      {where, "tokens of at most " + std::to_string(kMaxSoughtBytes) + " bytes",
       "\"" + std::string(token.substr(0, 16)) + "…\" of " +
           std::to_string(token.size()),
       ""});
}

void CheckIds(TokenId largest, size_t used, const std::string& where) {
  const size_t most = kIdsPerToken * used + kFreeIds;
  if (largest < 0 || static_cast<size_t>(largest) < most) return;
  throw Error(ErrorCode::kCorrupt,
              {where,
               "ids below " + std::to_string(most) + " for " +
                   std::to_string(used) + " tokens",
               std::to_string(largest), "ids count the rows of a model"});
}

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
