// Position metrics between words instead of tokens: "words.previous",
// "words.offset.3", "words.local" … with their chance and argmax. Attention to
// a split word is the sum over its pieces, from it their mean.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/site_notes.h"
#include "headwise/nn/hooks.h"

namespace headwise {

inline constexpr const char* kWordsPrefix = "words.";

// Hooks of a run of whole packed sequences; self-attention only. It looks at
// every row again, so that time grows with the square of a sequence's length;
// memory does not. Context and profile must outlive it.
class WordObserver : public RunHooks {
 public:
  // Words that see fewer than min_visible words do not count, nor does the
  // first of a sequence.
  WordObserver(Context& context, Profile& profile, int64_t min_visible);

  // The sequences of the next run, in its order; kept until the next Begin.
  void Begin(std::span<const SequenceNotes> sequences) {
    sequences_ = sequences;
  }

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override;

 private:
  struct Sums;
  void AddSequence(const AttentionProblem& problem, const AttentionArgs& args,
                   int64_t sequence, const TokenNotes& notes, size_t first);

  Context& context_;
  Profile& profile_;
  int64_t min_visible_;
  std::span<const SequenceNotes> sequences_;
  std::map<std::pair<AttentionKind, int64_t>, size_t> first_head_;
};

}  // namespace headwise
