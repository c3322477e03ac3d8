// Word-level material: what a treebank, coreference annotation or sentence
// pairs tell about every head, added to a profile. Tallies of several runs add
// up, as everything in a profile does.
//
//   syntactic.RELATION.up.a      dependents whose most attended other word is
//   syntactic.RELATION.down.b    their governor; governors, their dependent;
//                                each for two halves of the sentences
//   coreference                  coreferent mentions whose head word attends
//                                most, among earlier mention heads, to an
//                                antecedent, where not all of them are;
//                                .nearest and .same-word: what the
//                                nearest mention, or the nearest with the same
//                                head word, would get
//   translation                  target words whose most attended source word
//                                is their link (cross-attention); .diagonal:
//                                what the diagonal would get
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/words/coreference_file.h"
#include "headwise/heads/profile/words/treebank.h"
#include "headwise/heads/profile/words/word_attention.h"
#include "headwise/model/model.h"
#include "headwise/progress.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// ".offset.-2": behind a metric of syntax, the baseline of that offset.
std::string OffsetBaseline(int offset);

// Among a profile's baselines: coreferent mentions that were left out, since
// all their candidates are antecedents and none could be missed. Its weight is
// their number.
inline constexpr const char* kCertainMentions = "coreference.certain";

struct WordOptions {
  FromWord from = FromWord::kMean;
  // Tokens of a coreference window; more see antecedents further back and cost
  // more. 0: as ContextOf (runtime/windows.h).
  int64_t context = 0;
  OnProgress progress = {};
  std::stop_token stop = {};
};

// What was read, and what could not be used.
struct WordCounts {
  int64_t sequences = 0;  // sentences, windows or pairs that were run
  int64_t too_long = 0;   // left out: more tokens than the model can take
  int64_t cases = 0;
  int64_t certain = 0;  // kCertainMentions
};

// Self-attention of the encoder, or of a decoder-only model, where a link
// counts only if its target is visible. Throws Error(kCancelled) when stopped,
// leaving the profile as it was.
WordCounts AddTreebank(Context& context, const Model& model,
                       const Tokenizer& tokenizer,
                       std::span<const TreebankSentence> sentences,
                       const WordOptions& options, Profile& profile);

// Documents are cut into windows of whole sentences; words are joined with
// spaces.
WordCounts AddCoreference(Context& context, const Model& model,
                          const Tokenizer& tokenizer,
                          std::span<const CoreferenceDocument> documents,
                          const WordOptions& options, Profile& profile);

struct TranslationPair {
  std::string source;
  std::string target;
};
// Tab-separated lines: the last two columns. Throws Error(kCorrupt) with the
// line for one that has fewer.
std::vector<TranslationPair> ParsePairs(std::string_view text,
                                        const std::string& where);

// Cross-attention of an encoder–decoder. The row of a target word is the one
// that predicts it. Links are learnt from all pairs, lower-cased.
WordCounts AddTranslation(Context& context, const Model& model,
                          const Tokenizer& source_tokenizer,
                          const Tokenizer& target_tokenizer,
                          std::span<const TranslationPair> pairs,
                          const WordOptions& options, Profile& profile);

}  // namespace headwise
