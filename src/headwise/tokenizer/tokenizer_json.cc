// Reading tokenizer.json. Door: tokenizer_json.h.
#include "headwise/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <utility>

#include "headwise/base/json.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/tokenizer/pipeline.h"

namespace headwise {
namespace {

AddedToken ReadAddedToken(const JsonCursor& json,
                          const Vocabulary& vocabulary) {
  AddedToken token;
  token.content = json["content"].String();
  CheckSought(token.content, json.where());
  token.id = static_cast<TokenId>(json["id"].Int(0, kMaxTokenId));
  token.special = json.Bool("special", false);
  token.single_word = json.Bool("single_word", false);
  token.lstrip = json.Bool("lstrip", false);
  token.rstrip = json.Bool("rstrip", false);
  token.normalized = json.Bool("normalized", !token.special);
  // Where the model knows the token too, its id is the one that was trained.
  const TokenId known = vocabulary.Find(token.content);
  if (known != kNoToken) token.id = known;
  return token;
}

// Rules of one part, in sequences within sequences too.
size_t CountRules(const Json& json) {
  size_t rules = json.is_object() && json.contains("type") ? 1 : 0;
  if (json.is_structured()) {
    for (const Json& inner : json) rules += CountRules(inner);
  }
  return rules;
}

// Each goes through the whole text.
constexpr size_t kMaxRules = 256;

// A part that may be absent: the makers take null for "none".
template <typename Make>
auto MakePart(const JsonCursor& root, const char* key, Make make) {
  static const Json kNull;
  const auto part = root.Find(key);
  if (part && CountRules(part->value()) > kMaxRules) {
    throw Error(
        ErrorCode::kUnsupported,
        {part->where(), "at most " + std::to_string(kMaxRules) + " rules",
         std::to_string(CountRules(part->value())), ""});
  }
  return make(part ? *part : JsonCursor(kNull, root.where() + ": " + key));
}

}  // namespace

std::unique_ptr<Tokenizer> ParseTokenizerJson(std::string_view text,
                                              const std::string& where) {
  const Json json = ParseJson(text, where);
  const JsonCursor root(json, where);
  PipelineParts parts;
  parts.normalizer = MakePart(root, "normalizer", MakeNormalizer);
  parts.pre_tokenizer = MakePart(root, "pre_tokenizer", MakePreTokenizer);
  parts.model = MakeSubwordModel(root["model"]);
  parts.post_processor = MakePart(root, "post_processor", MakePostProcessor);
  parts.decoder = MakePart(root, "decoder", MakeTokenDecoder);
  if (const auto added = root.Find("added_tokens")) {
    for (const JsonCursor& token : added->Items()) {
      parts.added.Add(ReadAddedToken(token, parts.model->vocabulary()),
                      *parts.normalizer);
    }
  }
  const Vocabulary& vocabulary = parts.model->vocabulary();
  CheckIds(std::max(vocabulary.size(), parts.added.size()) - 1,
           vocabulary.count() + parts.added.count(), where);
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

std::unique_ptr<Tokenizer> ReadTokenizerJson(
    const std::filesystem::path& path) {
  const MappedFile file(path);
  return ParseTokenizerJson(file.text(), path.string());
}

}  // namespace headwise
