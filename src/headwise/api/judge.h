// A text that another model is held against the whole one on: prune, evaluate
// and CompareModels judge by this alone.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/api/text_input.h"
#include "headwise/evaluate.h"
#include "headwise/heads/pruning/agreement.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/loss.h"
#include "headwise/model.h"
#include "headwise/text_input.h"

namespace headwise {

// Names that tell texts apart: a file's name, its path where two files have
// one name; texts and ids that were given are counted.
std::vector<std::string> DomainsOf(std::span<const TextInput> texts);

// Throws Error(kInvalidArgument) for a file that both read.
void RequireOtherText(const TextInput& chooses, const TextInput& judges);

class Judge {
 public:
  // Runs the whole model over the windows and, of encoders, over sentences of
  // them. Borrows the model. Throws Error(kInvalidArgument) for no text.
  Judge(Transformer& whole, std::span<const TokenWindow> windows,
        std::string domain, const CorpusOptions& options);

  const JudgedText& text() const { return text_; }
  void StopSharing() { text_.StopSharing(); }
  const std::string& domain() const { return domain_; }
  // Another model of the same kind, width and vocabulary.
  ModelJudgement Of(const Model& other) const;

 private:
  void AddSentences(const Model& other, Agreement& agreement) const;

  Context& context_;
  std::string domain_;
  uint64_t seed_ = 0;
  JudgedText text_;
  std::vector<TextExample> sentences_;  // of encoders
  TextVectors embeddings_;              // the whole model's, of sentences
};

}  // namespace headwise
