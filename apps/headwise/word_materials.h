// Annotated material that profile and roles are given: read and judged before
// the model runs, for that takes minutes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "headwise/heads/profile/words/materials.h"

namespace headwise {

// What stands for the samples of assets/treebank and assets/coref.
inline constexpr const char* kShippedSample = "shipped";

// Paths, or kShippedSample; "" where none was given.
struct WordFlags {
  std::string conllu;
  std::string coref;
  std::string pairs;

  bool any() const {
    return !conllu.empty() || !coref.empty() || !pairs.empty();
  }
};

class WordMaterials {
 public:
  // Throws Error for files that are not what they should be, a model without
  // a tokenizer, and pairs for a model that is no encoder–decoder. `folder` is
  // the model's, for messages.
  WordMaterials(const WordFlags& flags, const Model& model,
                const Tokenizer* tokenizer, const std::string& folder);

  bool empty() const {
    return treebank_.empty() && coreference_.empty() && pairs_.empty();
  }

  // Runs the model over all of it. Throws Error(kCancelled) when stopped.
  void AddTo(Context& context, const Model& model, const Tokenizer& tokenizer,
             const WordOptions& options, Profile& profile) const;

 private:
  std::vector<TreebankSentence> treebank_;
  std::vector<CoreferenceDocument> coreference_;
  std::vector<TranslationPair> pairs_;
};

}  // namespace headwise
