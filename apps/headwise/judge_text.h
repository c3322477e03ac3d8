// Two models beside each other for people and machines: what they lose on
// each text, how alike their answers are, and what they say to prompts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/evaluate.h"
#include "headwise/model.h"

namespace headwise {

// One row a text. whole, other: what the models are called.
void PrintJudged(std::span<const ModelJudgement> rows, const char* whole,
                 const char* other);
Json ToJson(std::span<const ModelJudgement> rows);

// Where only text of one domain judges, part of which chose: "" otherwise.
std::string WarnOneDomain(std::span<const ModelJudgement> rows);

// Prompts of a file and what models answer.
class PromptAnswers {
 public:
  // Of no file: nothing is asked. Throws Error: as MappedFile does;
  // kInvalidArgument for a file without lines.
  explicit PromptAnswers(const std::string& path);

  // Asks the next model. Throws Error(kUnsupported) for one that predicts no
  // text, kCancelled when interrupted.
  void Ask(Transformer& model);
  // Of the first model and the second; nothing where there was no file.
  void Print(const char* first, const char* second) const;
  void AddTo(Json& json) const;

 private:
  std::vector<std::string> prompts_;
  std::vector<std::vector<std::string>> answers_;  // by model
};

}  // namespace headwise
