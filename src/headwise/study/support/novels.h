// What studies of language models train. Of a full study with texts: the recipe
// model (Llama's layout, 6 layers of 8 heads × 32, 64 windows of 512 tokens a
// step) on those texts, cut by the tokenizer of the request's model, every 20th
// file held out. Else something small for two cores, of which nothing is
// decided: GPT-2's layout on the bytes of a text or on made-up stories.
//
//   const Language language(context, request);
//   const TrainConfig how = language.Training(seed, steps);
//   const auto tiny = language.NewModel(context, {.heads = 1}, how);
//   tiny->Train(*language.Train(how), clock);
//   tiny->SequenceLosses(language.HeldOut(), language.held_out(kMostTokens));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headwise/heads/profile/profile.h"
#include "headwise/runtime/windows.h"
#include "headwise/study/support/story.h"
#include "headwise/study/support/tiny_model.h"
#include "headwise/tokenizer/tokenizer.h"
#include "headwise/train/corpus.h"
#include "headwise/train/text_batches.h"

namespace headwise {

// Whether the recipe model is to be trained: a full study that has texts.
bool ReadsNovels(const StudyRequest& request);

// Of the recipe model; a small one takes half of the width, a third of the
// layers, and heads that share the width.
struct LanguageShape {
  int64_t layers = 6;
  int64_t heads = 8;
  int64_t width = 256;
  int64_t head_dim = 0;  // 0: width / heads
};

class Language {
 public:
  // Throws Error for texts that cannot be read or are too short, and for
  // texts to be cut into tokens without a model whose tokenizer does it.
  Language(Context& context, const StudyRequest& request);

  bool novels() const { return corpus_.has_value(); }
  bool stories() const { return !novels() && text_.story; }
  const std::string& name() const { return name_; }
  // Of the text, its split and the tokenizer; what is made up has its name.
  const std::string& hash() const { return corpus_ ? corpus_->hash() : name_; }
  int64_t vocabulary() const;
  int64_t length() const { return length_; }  // tokens of a window

  // config.json, and how the recipe trains such a model: text alone.
  Json Config(const LanguageShape& shape) const;
  TrainConfig Training(uint64_t seed, int64_t steps) const;
  // The same with repeated blocks among the windows, which make induction
  // heads form.
  TrainConfig WithRepeats(TrainConfig how) const;
  // Windows in the order of `how`'s seed. Borrows from this.
  std::unique_ptr<BatchSource> Train(const TrainConfig& how) const;
  // Held-out windows, in an order in which any first ones are of all files, and
  // how many of them have `most` tokens.
  const BatchSource& HeldOut() const { return *held_out_; }
  int64_t held_out(int64_t most_tokens) const;
  // Held-out windows first … first + count − 1 as heads' analyses take them.
  std::vector<TokenWindow> Windows(int64_t first, int64_t count) const;

  // What a token says.
  std::string Word(int32_t id) const;

  // What every head of a model does on `count` held-out windows and on random
  // repeats.
  Profile MakeProfile(Context& context, const Model& model, int64_t count,
                      int64_t first = 0) const;

  // On an accelerator products are of bf16, as recipes are trained there.
  // choice: config.json's "headwise", how heads are chosen.
  std::unique_ptr<TinyModel> NewModel(Context& context,
                                      const LanguageShape& shape,
                                      const TrainConfig& how,
                                      const Json& choice = {}) const;

 private:
  void OpenNovels(Context& context, const StudyRequest& request);

  std::string name_;
  bool whole_ = false;  // the recipe as it is; else a small model
  int64_t length_ = kStoryLength;
  int64_t batch_ = 8;
  StudyText text_;  // of small models
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<Corpus> corpus_;
  std::unique_ptr<BatchSource> held_out_;
};

// Runs every case with every seed; results by [case][seed]. On the CPU small
// models run side by side; else one after the other, each with all of
// `context`.
template <typename Run>
auto RunLanguage(Context& context, const Language& language, size_t cases,
                 const std::vector<uint64_t>& seeds, const Run& run) {
  using Result = std::invoke_result_t<Run, Context&, size_t, uint64_t>;
  if (!language.novels()) return RunCases(context, cases, seeds, run);
  std::vector<std::vector<Result>> results(cases);
  for (size_t which = 0; which < cases; ++which) {
    for (const uint64_t seed : seeds) {
      results[which].push_back(run(context, which, seed));
    }
  }
  return results;
}

}  // namespace headwise
