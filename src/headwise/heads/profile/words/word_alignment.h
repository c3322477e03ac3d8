// Which source word a target word translates, by IBM Model 1 (Brown et al.
// 1993): expectation-maximisation of t(target | source) on sentence pairs, each
// source sentence with an empty word beside its own. Deterministic: uniform
// start, sums in the order of the pairs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headwise {

struct WordPair {
  std::vector<std::string> source;
  std::vector<std::string> target;
};

class WordAligner {
 public:
  // More iterations sharpen the table; after about 10 links hardly change.
  explicit WordAligner(std::span<const WordPair> pairs, int iterations = 10);

  // For each target word its most probable source word, the first of equals;
  // −1 where the empty word is more probable or the pair was never seen.
  std::vector<int32_t> Links(const WordPair& pair) const;

  // t(target | source); source "" is the empty word. 0 where they never met.
  double Probability(std::string_view source, std::string_view target) const;

 private:
  using Ids = std::unordered_map<std::string, uint32_t>;
  double At(uint32_t source, uint32_t target) const;

  Ids sources_, targets_;
  std::unordered_map<uint64_t, uint32_t> places_;  // (source, target) → entry
  std::vector<double> table_;
};

}  // namespace headwise
