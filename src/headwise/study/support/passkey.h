// The passkey task: a key hidden in a long text, asked for at its end. What
// tells it must find something from far away, wherever it stands.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/runtime/kv_policy.h"
#include "headwise/study/support/tiny_model.h"

namespace headwise {

// Tokens: <bos> and words. A text is random words with a key among them, words
// that stand nowhere else in it; where its first word comes again, the others
// are to follow.
struct PasskeyTask {
  int64_t length = 256;  // of the longest text, its answer included
  int64_t key = 5;       // words of a key, of which the first asks for the rest
  int64_t words = 63;

  int64_t vocabulary() const { return 1 + words; }
  // Of naming a key by chance.
  double chance() const;
  // A text to learn from, of a sixth of the length to all of it, with a key of
  // this length or longer, which is predicted where it is asked for; or, in
  // half of the cases, a few words over and over.
  MadeSequence Lesson(Rng& rng) const;
};

// <bos> … key … its first word: the others are to follow.
struct Passkey {
  std::vector<int32_t> prompt;
  std::vector<int32_t> key;
  int64_t place = 0;  // of its first word
};
// The first `count` of a seed, as long as texts get, hidden in the first half.
std::vector<Passkey> HidePasskeys(const PasskeyTask& task, uint64_t seed,
                                  int64_t count);

// Of every head (AllHeads), the share of the words to be told for which its
// largest key is that word where it was hidden: the metric "retrieval".
std::vector<double> RetrievalOf(Context& context, const Model& model,
                                std::span<const Passkey> passkeys);

struct ToldKeys {
  double share = 0;  // of the keys, told whole
  CacheBytes bytes;  // of all texts that ran together
};
// Greedy, through a session whose heads keep what the policy says; null: all.
ToldKeys TellKeys(Context& context, const Model& model,
                  std::span<const Passkey> passkeys, const KvPolicy* policy);

}  // namespace headwise
