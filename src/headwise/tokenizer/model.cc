// Choosing the model of a tokenizer.json. Door: model.h.
#include "headwise/tokenizer/model.h"

#include "headwise/error.h"
#include "headwise/tokenizer/bpe.h"
#include "headwise/tokenizer/unigram.h"
#include "headwise/tokenizer/wordpiece.h"

namespace headwise {
namespace {

// Files from before models named their type are told by their fields.
std::string TypeOf(const JsonCursor& json) {
  if (const auto type = json.Find("type")) return type->String();
  if (json.Find("merges")) return "BPE";
  if (json["vocab"].value().is_array()) return "Unigram";
  return json.Find("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

}  // namespace

std::unique_ptr<SubwordModel> MakeSubwordModel(const JsonCursor& json) {
  const std::string type = TypeOf(json);
  if (type == "BPE") return BpeModel::FromJson(json);
  if (type == "WordPiece") return WordPieceModel::FromJson(json);
  if (type == "Unigram") return UnigramModel::FromJson(json);
  if (type == "WordLevel") return WordLevelModel::FromJson(json);
  throw Error(ErrorCode::kUnsupported,
              {json.where() + ": type", "BPE, WordPiece, Unigram or WordLevel",
               "\"" + type + "\"", ""});
}

}  // namespace headwise
