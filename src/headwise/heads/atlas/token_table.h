// The tokens that weigh most in a stream, in bounded memory (Misra–Gries):
// each weight is too small by at most total / (kTokenCounters + 1), whatever
// was added in which parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "headwise/dist/pack.h"

namespace headwise {

inline constexpr size_t kTokenCounters = 1024;

class TokenWeights {
 public:
  struct Entry {
    int32_t token = 0;
    double weight = 0;
  };

  // Weights of tokens, each token once.
  void Add(std::vector<Entry> more);
  void Pack(dist::Packer& to) const;
  void AddPacked(dist::Unpacker& from);

  double total() const { return total_; }
  // At most so many, largest first; equal ones by token.
  std::vector<Entry> Largest(size_t most) const;

 private:
  void Merge(const std::vector<Entry>& more);

  std::vector<Entry> entries_;  // by token
  double total_ = 0;
};

}  // namespace headwise
