// WordPiece and WordLevel. Door: wordpiece.h.
#include "headwise/tokenizer/wordpiece.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "headwise/error.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {

WordPieceModel::WordPieceModel(Vocabulary vocabulary, WordPieceOptions options,
                               const std::string& where)
    : vocabulary_(std::move(vocabulary)),
      options_(std::move(options)),
      unknown_(vocabulary_.Find(options_.unknown)) {
  if (unknown_ == kNoToken) {
    throw Error(ErrorCode::kCorrupt,
                {where, "the unknown token \"" + options_.unknown + "\"",
                 "none in the vocabulary", ""});
  }
  const std::string& prefix = options_.continuing_prefix;
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    const std::string* token = vocabulary_.Token(id);
    if (token == nullptr) continue;
    CheckSought(*token, where);
    // A token that is there twice has the id that the vocabulary finds.
    const TokenId known = vocabulary_.Find(*token);
    first_.Add(*token, known);
    if (token->starts_with(prefix)) {
      continuing_.Add(std::string_view(*token).substr(prefix.size()), known);
    }
  }
}

std::unique_ptr<WordPieceModel> WordPieceModel::FromJson(
    const JsonCursor& json) {
  WordPieceOptions options;
  options.unknown = json.String("unk_token", options.unknown);
  options.continuing_prefix =
      json.String("continuing_subword_prefix", options.continuing_prefix);
  options.max_characters =
      json.Int("max_input_chars_per_word", 0,
               std::numeric_limits<int64_t>::max(), options.max_characters);
  const JsonCursor vocab = json["vocab"];
  return std::make_unique<WordPieceModel>(Vocabulary::FromJson(vocab),
                                          std::move(options), vocab.where());
}

void WordPieceModel::Tokenize(std::string_view piece,
                              std::vector<PieceToken>& tokens) const {
  const size_t first = tokens.size();
  const auto size = static_cast<uint32_t>(piece.size());
  bool known =
      CountCharacters(piece) <= static_cast<size_t>(options_.max_characters);
  for (uint32_t begin = 0; known && begin < size;) {
    PieceToken longest{kNoToken, begin, begin};
    const ByteTrie& trie = begin == 0 ? first_ : continuing_;
    trie.ForEachPrefix(piece.substr(begin), [&](size_t length, TokenId id) {
      longest = {id, begin, begin + static_cast<uint32_t>(length)};
    });
    known = longest.id != kNoToken;
    tokens.push_back(longest);
    begin = longest.end;
  }
  if (known) return;
  tokens.resize(first);
  tokens.push_back({unknown_, 0, size});
}

std::unique_ptr<WordLevelModel> WordLevelModel::FromJson(
    const JsonCursor& json) {
  auto model = std::make_unique<WordLevelModel>();
  model->vocabulary_ = Vocabulary::FromJson(json["vocab"]);
  model->unknown_ = model->vocabulary_.Find(json.String("unk_token", "<unk>"));
  return model;
}

void WordLevelModel::Tokenize(std::string_view piece,
                              std::vector<PieceToken>& tokens) const {
  TokenId id = vocabulary_.Find(piece);
  if (id == kNoToken) id = unknown_;
  if (id == kNoToken) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"tokenize",
         "words of the vocabulary, which has no unknown "
         "token",
         "\"" + std::string(piece) + "\"", "leave the word out of the text"});
  }
  tokens.push_back({id, 0, static_cast<uint32_t>(piece.size())});
}

}  // namespace headwise
