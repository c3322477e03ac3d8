// Annotated material for a profile: read and judged before the model runs, for
// that takes minutes.
#pragma once

#include <string>
#include <vector>

#include "headwise/heads/profile/words/materials.h"
#include "headwise/profile.h"

namespace headwise {

class WordMaterials {
 public:
  // Throws Error for files that are not what they should be, a model without
  // a tokenizer, and pairs for a model that is no encoder–decoder. `folder` is
  // the model's, for messages.
  WordMaterials(const WordFiles& files, const Model& model,
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
