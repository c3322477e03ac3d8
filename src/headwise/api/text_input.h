// Texts as models read them, for the files of this folder.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "headwise/api/state.h"
#include "headwise/heads/importance/corpus_runs.h"
#include "headwise/heads/importance/objective.h"
#include "headwise/model.h"
#include "headwise/runtime/windows.h"
#include "headwise/text_input.h"
#include "headwise/tokenizer/text_source.h"

namespace headwise {

// How much is read where the text says nothing.
inline constexpr int64_t kAnalysedTokens = 8192;
inline constexpr int64_t kEffectTokens = 256;

// Throws Error(kInvalidArgument) unless exactly one of texts, files and ids is
// given.
void RequireOneKind(const TextInput& text);

// The documents of texts and files.
TextSource SourceOf(const TextInput& text);

// The tokens of a window where losses are compared: as asked for, else short,
// since intervals rest on the number of sequences.
int64_t JudgedContext(const ModelConfig& config, int64_t asked);

// Windows of `context` tokens, 0: by default. Rows of ids longer than that are
// cut. tokens: where the text does not say.
std::vector<TokenWindow> WindowsOf(const Transformer& model,
                                   const TextInput& text, int64_t context,
                                   int64_t tokens);
// The rows of ids alone, cut.
std::vector<TokenWindow> WindowsOfIds(const Transformer& model,
                                      const TextInput& text, int64_t context);

// Short windows, and how they are judged.
struct JudgedInput {
  std::vector<TokenWindow> windows;
  std::vector<TextExample> examples;
  ObjectiveOptions objective;
};
JudgedInput JudgedInputOf(const Transformer& model, const TextInput& text,
                          uint64_t seed);
// How it is read, by a job's seed.
inline CorpusOptions CorpusOptionsOf(const JudgedInput& input, uint64_t seed,
                                     const PassOptions& pass) {
  return {.objective = input.objective, .seed = seed, .pass = pass};
}

// One text whole, however long. target: of encoder–decoders, where the text
// holds no tab.
TokenWindow WholeText(const Transformer& model, std::string_view text,
                      std::string_view target);
TokenWindow WholeIds(const Transformer& model, std::span<const int32_t> ids,
                     std::string_view target);

}  // namespace headwise
