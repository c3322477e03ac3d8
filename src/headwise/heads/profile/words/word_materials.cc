// Door: word_materials.h.
#include "headwise/heads/profile/words/word_materials.h"

#include "headwise/base/mapped_file.h"
#include "headwise/error.h"

namespace headwise {
namespace {

std::vector<TranslationPair> ReadPairs(const std::string& path,
                                       const Model& model) {
  if (model.decoder() == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {path, "an encoder–decoder to read pairs with",
                 model.config().model_type,
                 "pairs tell of attention from a target to its source"});
  }
  std::vector<TranslationPair> pairs =
      ParsePairs(MappedFile(path).text(), path);
  if (pairs.empty()) {
    throw Error(ErrorCode::kCorrupt, {path, "lines source<TAB>target", "none",
                                      "each line is source, a tab, target"});
  }
  return pairs;
}

}  // namespace

WordMaterials::WordMaterials(const WordFiles& files, const Model& model,
                             const Tokenizer* tokenizer,
                             const std::string& folder) {
  if (files.any() && tokenizer == nullptr) {
    throw Error(ErrorCode::kNotFound,
                {folder, "a tokenizer for words", "none", ""});
  }
  if (files.conllu) treebank_ = ReadTreebank(*files.conllu);
  if (files.coref) coreference_ = ReadCoreference(*files.coref);
  if (files.pairs) pairs_ = ReadPairs(files.pairs->string(), model);
}

void WordMaterials::AddTo(Context& context, const Model& model,
                          const Tokenizer& tokenizer,
                          const WordOptions& options, Profile& profile) const {
  if (!treebank_.empty()) {
    AddTreebank(context, model, tokenizer, treebank_, options, profile);
  }
  if (!coreference_.empty()) {
    AddCoreference(context, model, tokenizer, coreference_, options, profile);
  }
  if (!pairs_.empty()) {
    AddTranslation(context, model, tokenizer, tokenizer, pairs_, options,
                   profile);
  }
}

}  // namespace headwise
