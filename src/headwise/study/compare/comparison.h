// One head beside many on one sentence: every head's distributions, their
// average, and what the average loses. Weights here are untrained: they show
// what the shape of the layer allows. Trained ones: trained_comparison.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/context.h"
#include "headwise/tensor/matrix.h"

namespace headwise {

// Larger sentences and layers are refused: nobody could look at the pictures.
inline constexpr int64_t kMaxCompareWords = 64;
inline constexpr int64_t kMaxCompareHeads = 64;

struct ComparisonOptions {
  std::vector<int64_t> heads = {1, 8};
  int64_t d_model = 64;
  uint64_t seed = 1;
  bool causal = false;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("heads", self.heads, "head counts to compare, e.g. 1,8");
    visit("d_model", self.d_model, "width of the layer; heads divide it");
    visit("seed", self.seed, "seed of words and weights");
    visit("causal", self.causal, "words see only themselves and earlier ones");
  }
};

struct HeadMap {
  Matrix weights;      // A_h, [words, words]
  double entropy = 0;  // nats, mean over words
  double lost = 0;     // KL(A_h‖average), nats, mean over words
};

// What becomes of one word's distributions when they are averaged.
struct WordMixture {
  // Jensen–Shannon divergence of the heads: entropy of the average less the
  // mean entropy = mean KL to the average. 0 when all heads agree.
  double lost = 0;
  // exp(lost): as many distinct distributions as would lose this much, from 1
  // to the number of heads.
  double distinct = 1;
  std::vector<int64_t> favourites;  // each head's largest key
  int64_t average_favourite = 0;
  int64_t kept = 0;  // heads whose favourite is the average's
};

// One layer of `heads` heads on the sentence.
struct ComparedHeads {
  std::vector<std::string> tokens;  // what rows and columns stand for
  // Of trained models: what it is called where it has to be told from others,
  // which layer it is, and what each head does ("" for no role; empty: nobody
  // asked).
  std::string model;
  int64_t layer = 0;
  std::vector<std::string> roles;
  int64_t heads = 1;
  int64_t head_dim = 0;
  int64_t parameters = 0;
  std::vector<HeadMap> maps;
  Matrix average;  // mean of the maps
  std::vector<WordMixture> words;
  double entropy = 0;          // mean over heads and words, nats
  double average_entropy = 0;  // of the average, nats
  double lost = 0;             // mean over words, nats
  double distinct = 1;         // mean over words
};

struct Comparison {
  std::string sentence;
  bool trained = false;
  std::string about;    // what the weights are, in a sentence
  std::string command;  // flags of `headwise compare` that make it again
  std::vector<ComparedHeads> sets;
  double largest = 0;  // the largest weight of any map, for one scale
};

// Throws Error(kInvalidArgument).
[[noreturn]] void RefuseComparison(std::string expected, std::string found,
                                   std::string hint = "");

// Whether all sets stand for the same tokens, so that they can be drawn below
// each other; whether all have equally many weights.
bool SameTokens(const Comparison& comparison);
bool EqualWeights(const Comparison& comparison);

// A set of heads by their maps, [words, words] each; all else is left to the
// caller.
ComparedHeads SetOfMaps(std::vector<Matrix> maps);

void AddSet(ComparedHeads set, Comparison& comparison);

// Words at white space; ASCII punctuation apart.
std::vector<std::string> SplitWords(std::string_view sentence);

// Throws Error(kInvalidArgument) for an empty or too long sentence and for head
// counts that do not divide the width.
Comparison CompareHeads(Context& context, std::string_view sentence,
                        const ComparisonOptions& options);

}  // namespace headwise
