// Gold links between words, and how often each head's most attended word is the
// gold one. Syntax, and translation in cross-attention, are counted so.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/profile/profile.h"

namespace headwise {

// A word that should attend to another, and under which name it counts.
struct WordLink {
  int32_t from = 0;
  int32_t to = 0;
  int32_t metric = 0;  // place in the names of a LinkCounter
};

// Adds one tally a head to a metric of the profile.
void AddTallies(Profile& profile, const std::string& name,
                const std::vector<Tally>& tallies);

// Counts hits over sequences into tallies, one a head. A sequence's sum is its
// number of hits, its weight its number of links.
class LinkCounter {
 public:
  explicit LinkCounter(size_t heads) : heads_(heads) {}

  // The place of a metric's name; new names are added.
  int32_t Metric(const std::string& name);

  const std::string& NameOf(int32_t metric) const { return names_[metric]; }

  // The links of the next sequence.
  void BeginSequence(std::vector<WordLink> links);
  // What one head chose for each word of it, −1 for none.
  void Add(size_t head, std::span<const int32_t> chosen);

  // Adds all tallies to the profile.
  void AddTo(Profile& profile) const;

 private:
  size_t heads_;
  std::map<std::string, int32_t> places_;
  std::vector<std::string> names_;
  std::vector<std::vector<Tally>> tallies_;  // by metric, one a head
  std::vector<WordLink> links_;              // of this sequence
  std::vector<double> cases_;                // of this sequence, by metric
  std::vector<int32_t> present_;             // metrics of this sequence
  std::vector<double> hits_;                 // scratch
};

}  // namespace headwise
