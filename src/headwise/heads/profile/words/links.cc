// Counting links. Door: links.h.
#include "headwise/heads/profile/words/links.h"

#include <algorithm>
#include <utility>

namespace headwise {

int32_t LinkCounter::Metric(const std::string& name) {
  const auto [place, fresh] =
      places_.emplace(name, static_cast<int32_t>(tallies_.size()));
  if (fresh) {
    names_.push_back(name);
    tallies_.emplace_back(heads_);
    cases_.push_back(0);
    hits_.push_back(0);
  }
  return place->second;
}

void LinkCounter::BeginSequence(std::vector<WordLink> links) {
  links_ = std::move(links);
  present_.clear();
  std::fill(cases_.begin(), cases_.end(), 0.0);
  for (const WordLink& link : links_) {
    if (cases_[link.metric]++ == 0) present_.push_back(link.metric);
  }
}

void LinkCounter::Add(size_t head, std::span<const int32_t> chosen) {
  for (const int32_t metric : present_) hits_[metric] = 0;
  for (const WordLink& link : links_) {
    if (chosen[link.from] == link.to) ++hits_[link.metric];
  }
  for (const int32_t metric : present_) {
    tallies_[metric][head].Add(hits_[metric], cases_[metric]);
  }
}

void AddTallies(Profile& profile, const std::string& name,
                const std::vector<Tally>& tallies) {
  std::vector<Tally>& sum = profile.Tallies(name);
  for (size_t h = 0; h < tallies.size(); ++h) sum[h].Merge(tallies[h]);
}

void LinkCounter::AddTo(Profile& profile) const {
  for (const auto& [name, place] : places_) {
    AddTallies(profile, name, tallies_[place]);
  }
}

}  // namespace headwise
